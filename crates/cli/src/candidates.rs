//! What a shell offers for the value of an option.
//!
//! The name of a value (`VERSION`, `KEY=VALUE`) says what it is, so it decides what is offered: an
//! option that takes one of [`OFFERS`] completes without a word of its own. Everything is listed by
//! the program itself when the key is pressed, from the tables that read the values; a script with
//! the values in it would be wrong after the next release.

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use std::ffi::OsStr;
use zerolag::model::figure::{Figure, Owner};
use zerolag::model::{KernelVersion, Settings};
use zerolag::sim::Costs;
use zerolag::workload::limits::LimitPart;

/// A word that can be typed, and what it means.
struct Offer {
    word: String,
    meaning: String,
}

/// Returns what can be typed, by what is typed already.
type Offers = fn(&str) -> Vec<Offer>;

/// Names of values, and what is offered for what is typed of one.
const OFFERS: &[(&str, Offers)] = &[
    ("VERSION", |_| kernels()),
    ("KEY=VALUE", settings),
    ("KEY=VALUE,...", settings),
    ("KEY", |_| keys().chain(limits()).collect()),
    ("GOAL", goals),
    ("FIGURE,...", goals),
    ("PROFILE", |_| profiles()),
];

/// Returns the command line with what is offered for its values.
pub(crate) fn add(command: clap::Command) -> clap::Command {
    let offered = |arg: &clap::Arg| {
        let name = arg.get_value_names()?.first()?.as_str();
        OFFERS.iter().find(|(known, _)| *known == name).map(|(_, offers)| *offers)
    };
    command
        .mut_args(|arg| match offered(&arg) {
            Some(offers) => arg.add(ArgValueCompleter::new(move |typed: &OsStr| complete(typed, offers))),
            None => arg,
        })
        .mut_subcommands(add)
}

fn complete(typed: &OsStr, offers: Offers) -> Vec<CompletionCandidate> {
    let Some(typed) = typed.to_str() else { return Vec::new() };
    let candidate = |offer: Offer| CompletionCandidate::new(offer.word).help(Some(offer.meaning.into()));
    offers(typed).into_iter().filter(|offer| offer.word.starts_with(typed)).map(candidate).collect()
}

fn kernels() -> Vec<Offer> {
    let offer = |kernel: &KernelVersion| Offer { word: kernel.name(), meaning: String::new() };
    KernelVersion::ALL.iter().map(offer).collect()
}

fn profiles() -> Vec<Offer> {
    let offer =
        |(word, meaning, _): &(&str, &str, _)| Offer { word: (*word).to_owned(), meaning: (*meaning).to_owned() };
    Costs::NAMED.iter().map(offer).collect()
}

/// The keys of settings, then with a key the values that it can have, if they are words.
fn settings(typed: &str) -> Vec<Offer> {
    let Some((key, _)) = typed.split_once('=') else {
        return keys().chain(limits()).map(|offer| Offer { word: offer.word + "=", ..offer }).collect();
    };
    // Of several values the last is being typed.
    let before = typed.rfind(['=', ',']).map_or(typed, |end| &typed[..=end]);
    if key == "kernel" {
        return kernels().into_iter().map(|offer| Offer { word: format!("{before}{}", offer.word), ..offer }).collect();
    }
    let Some(setting) = Settings::TABLE.iter().find(|setting| setting.name == key || setting.key == key) else {
        return Vec::new();
    };
    let words = setting.values.split(" | ").filter(|_| setting.values.contains(" | "));
    words.map(|word| Offer { word: format!("{before}{word}"), meaning: String::new() }).collect()
}

fn keys() -> impl Iterator<Item = Offer> {
    let of_run = [
        ("kernel", "the kernel to simulate"),
        ("cpus", "CPUs of the machine"),
        ("seed", "seed of all random numbers"),
        ("policy", "the scheduler that sched_ext has loaded"),
        ("workers", "workers of a service"),
    ];
    let offer = |(word, meaning): (&str, &str)| Offer { word: word.to_owned(), meaning: meaning.to_owned() };
    Settings::TABLE.iter().map(|setting| (setting.name, setting.doc)).chain(of_run).map(offer)
}

fn limits() -> impl Iterator<Item = Offer> {
    let rows = LimitPart::TABLE.iter();
    rows.flat_map(|row| {
        row.spellings.iter().map(|(key, _)| Offer { word: (*key).to_owned(), meaning: row.meaning.to_owned() })
    })
}

/// Figures, behind what is typed of an owner's name: `web.` or `/web.`.
fn goals(typed: &str) -> Vec<Offer> {
    let before = typed.rfind(',').map_or("", |comma| &typed[..=comma]);
    let one = &typed[before.len()..];
    let owner = one.find('.').map_or("", |point| &one[..=point]);
    let known = |figure: &Figure| figure.is_in_goals();
    let mut offers: Vec<Offer> = Figure::all()
        .filter(known)
        .flat_map(|figure| {
            let named = (!owner.is_empty()).then(|| format!("{before}{owner}{}", figure.key()));
            let bare =
                matches!(figure.owner(), Owner::Service | Owner::Group).then(|| before.to_owned() + &figure.key());
            named.into_iter().chain(bare).map(move |word| Offer { word, meaning: figure.label() })
        })
        .collect();
    offers.dedup_by(|a, b| a.word == b.word);
    offers
}
