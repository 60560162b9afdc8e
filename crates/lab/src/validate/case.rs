//! The case file.
//!
//! Recorded kernels are `[[recorded]]` tables, or rows of a CSV file that it names (`rows`). The
//! columns of that file are the keys of such a table, and `parameters.NAME`, `settings.NAME`,
//! `figures.NAME`. An empty field is a missing key.

use super::distance::{Distribution, Of};
use super::sequence::Sequence;
use super::threads::Thread;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::path::{Path, PathBuf};
use zerolag_model::{CpuId, Duration, Instant, KernelVersion, Topology};
use zerolag_sim::Costs;

/// The allowed error of a figure: the larger of an absolute distance and a part of the recorded
/// value.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// In the figure's own unit.
    #[serde(default)]
    pub absolute: f64,
    /// In percent of the recorded value.
    #[serde(default)]
    pub percent: f64,
}

impl Band {
    /// Returns the allowed distance from a recorded value.
    #[must_use]
    pub fn of(&self, recorded: f64) -> f64 {
        self.absolute.max(recorded.abs() * self.percent / 100.0)
    }
}

/// A recorded figure: the mean of its takes, and the least and the most of them.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(try_from = "FigureInFile")]
pub struct Recorded {
    /// With it the simulation is compared.
    pub mean: f64,
    /// By how much takes differ: both are the mean if there was one take, or if all are equal.
    pub least: f64,
    /// See [`Recorded::least`].
    pub most: f64,
    /// The value of each take, in their order; empty if only the range is known.
    pub takes: Vec<f64>,
}

/// In a file a figure is a number, or has its range, or the value of each take.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a figure is a number, `{ mean = 1.0, least = 0.5, most = 1.5 }` or `{ takes = [0.5, 1.5] }`"
)]
enum FigureInFile {
    Figure(f64),
    Range { mean: f64, least: f64, most: f64 },
    Takes { takes: Vec<f64> },
}

impl TryFrom<FigureInFile> for Recorded {
    type Error = &'static str;

    fn try_from(said: FigureInFile) -> Result<Self, Self::Error> {
        match said {
            FigureInFile::Figure(figure) => Ok(figure.into()),
            FigureInFile::Range { mean, least, most } => Ok(Self { mean, least, most, takes: Vec::new() }),
            FigureInFile::Takes { takes } if takes.is_empty() => Err("`takes` has no value"),
            FigureInFile::Takes { takes } => {
                let mean = takes.iter().sum::<f64>() / takes.len() as f64;
                let least = takes.iter().copied().fold(f64::INFINITY, f64::min);
                let most = takes.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                // A mean of equal values is rounded.
                Ok(Self { mean: mean.clamp(least, most), least, most, takes })
            }
        }
    }
}

impl From<f64> for Recorded {
    fn from(figure: f64) -> Self {
        Self { mean: figure, least: figure, most: figure, takes: Vec::new() }
    }
}

impl Recorded {
    /// Returns how far a value is outside of the takes: 0 between them.
    #[must_use]
    pub fn outside(&self, value: f64) -> f64 {
        (self.least - value).max(value - self.most).max(0.0)
    }

    /// Returns the values of `takes` takes, as far as they are known: each, or, of four takes of
    /// which the range is known, those two and the other two as equal, or that of all takes.
    #[must_use]
    pub fn values(&self, takes: usize) -> Option<Vec<f64>> {
        let Self { mean, least, most, .. } = *self;
        match self.takes.len() {
            0 if least == most => Some(vec![mean; takes]),
            0 if takes == 4 => {
                let middle = (4.0 * mean - least - most) / 2.0;
                Some(vec![least, middle, middle, most])
            }
            known => (known == takes).then(|| self.takes.clone()),
        }
    }

    /// Returns the largest distance of a take from the mean of all.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.mean - self.least).max(self.most - self.mean)
    }
}

/// The recording of one kernel.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The series under whose name it is listed.
    pub kernel: KernelVersion,
    /// The preset with which it is compared: that of the recorded release where it is known, since
    /// stable releases take rules from later series (`NO_RT_PUSH_IPI` in 6.12.96).
    pub release: KernelVersion,
    /// The recorded machine, in a few words.
    pub on: String,
    /// The difference from other recordings of the case by the same kernel.
    pub variant: Option<String>,
    /// The simulated machine.
    pub machine: Topology,
    /// Settings in which that kernel differed from the preset.
    pub settings: Vec<(String, String)>,
    /// Values for parameters of the workload that differed from recording to recording, such as the
    /// phases of periodic tasks.
    pub parameters: Vec<(String, String)>,
    /// The recorded CPUs were virtual and ran in turns of at most this length: each tick is late by
    /// up to that.
    pub turns_of: Duration,
    /// In how many of all ticks CPU 0 had its turn first, in permille; a CPU that had it later
    /// ticks by that length later. `None`: all are late by random times up to that length.
    pub first_permille: Option<u32>,
    /// The costs of the recorded machine; of the default profile if none are known.
    pub costs: Option<Costs>,
    /// Per take that differed in that, the CPU on which each task of the workload was created, in
    /// its order, and the number of such takes. Empty: as the workload says.
    pub created_on: Vec<(Vec<CpuId>, usize)>,
    /// The kernel threads that ran beside the workload.
    pub threads: Vec<Thread>,
    /// Start of the measured window.
    pub from: Instant,
    /// Length of the measured window.
    pub window: Duration,
    /// `kind.name` and value.
    pub figures: BTreeMap<String, Recorded>,
    /// The sequence of turns.
    pub sequence: Option<Sequence>,
    /// The distributions of turns and delays, each with the name of its distance among the figures.
    pub distributions: BTreeMap<String, Distribution>,
    /// Why our figures are outside the band.
    pub because: Option<String>,
}

/// The starts of our runs, for a case whose migrations depend on microseconds: several runs, each
/// later by a fixed time; the figures are their means.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Begins {
    /// The number of runs.
    times: NonZeroU32,
    /// The time between their starts, in milliseconds.
    every_ms: u32,
}

impl Begins {
    const ONCE: Self = Self { times: NonZeroU32::MIN, every_ms: 0 };

    /// Returns the delay of each run.
    pub fn delays(self) -> impl Iterator<Item = Duration> {
        (0..u64::from(self.times.get())).map(move |run| Duration::from_millis(run * u64::from(self.every_ms)))
    }

    /// Returns which of the runs represent the takes that began in the `nth` way, if that many
    /// began in each: one after the other, so that each run has one way, and as many ways as takes
    /// had.
    pub(super) fn part(self, takes: impl Iterator<Item = usize> + Clone, nth: usize) -> Range<u64> {
        let all = takes.clone().sum::<usize>().max(1) as u64;
        let before = takes.clone().take(nth).sum::<usize>() as u64;
        let until = takes.take(nth + 1).sum::<usize>() as u64;
        let times = u64::from(self.times.get());
        before * times / all..until * times / all
    }
}

/// The figure for the similarity of two sequences of turns: 100 in every recording.
pub(super) const SEQUENCE: &str = "sequence";
/// The figure for the distance of two distributions of turns.
pub(super) const TURN_DISTANCE: &str = "turn_distance";
/// Turns of a task in a recorded sequence from which on their distribution is compared.
const TURNS_ENOUGH: usize = 10;

/// A workload with recorded figures.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its file's name without extension.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// Its title.
    pub title: String,
    /// The workload file.
    pub workload: PathBuf,
    /// Sets of tasks that differ only in name.
    pub alike: Vec<Vec<String>>,
    /// The allowed difference in length between our turn and the recorded one.
    pub turn_within: Duration,
    /// The starts of our runs.
    pub begins: Begins,
    bands: BTreeMap<String, Band>,
    /// The recordings.
    pub recorded: Vec<Recording>,
}

/// A mistake in a case file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CaseError {
    path: PathBuf,
    says: String,
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.says)
    }
}

impl std::error::Error for CaseError {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    title: String,
    workload: PathBuf,
    #[serde(default)]
    alike: Vec<Vec<String>>,
    #[serde(default)]
    turn_within_us: u64,
    begins: Option<Begins>,
    band: BTreeMap<String, Band>,
    recorded: Option<Vec<RecordingTable>>,
    /// More recordings, a row each.
    rows: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordingTable {
    kernel: String,
    release: Option<String>,
    on: String,
    variant: Option<String>,
    cpus: u32,
    /// Caches of the same number of CPUs each; one if absent.
    caches: Option<NonZeroU32>,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    #[serde(default)]
    turns_of_us: u64,
    first_permille: Option<u32>,
    costs: Option<PathBuf>,
    /// How many times as long an operation takes there; once if absent.
    costs_times: Option<NonZeroU32>,
    #[serde(default)]
    created_on: Vec<Vec<u32>>,
    #[serde(default)]
    threads: Vec<Thread>,
    from_ms: u64,
    window_ms: u64,
    figures: BTreeMap<String, Recorded>,
    /// Quantiles in microseconds, under the names of the figures that are distances from them.
    #[serde(default)]
    quantiles: BTreeMap<String, Vec<f64>>,
    sequence: Option<PathBuf>,
    because: Option<String>,
}

/// Returns a cost profile in which each measured operation takes so many times as long. Two CPUs
/// that an emulator runs in turns, on one clock that counts the instructions of both, get half of
/// the clock each. Tables are the profile's defaults for caches and interrupts between CPUs.
fn slowed(profile: &str, times: u32) -> String {
    let line = |line: &str| {
        let (key, value) = line.split_once(" = ")?;
        let time: Duration = value.strip_prefix('"')?.strip_suffix('"')?.parse().ok()?;
        Some(format!("{key} = \"{}ns\"\n", time.as_nanos() * u64::from(times)))
    };
    profile.lines().map(|said| line(said).unwrap_or_else(|| format!("{said}\n"))).collect()
}

impl Case {
    /// Reads a case file.
    ///
    /// # Errors
    /// It cannot be read, is not TOML, or has unknown or missing keys; with line and column where
    /// known.
    #[expect(clippy::too_many_lines, reason = "every check of the file names its path, and ends the function")]
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let error = |says: String| CaseError { path: path.to_owned(), says };
        let text = std::fs::read_to_string(path).map_err(|io| error(format!("cannot be read: {io}")))?;
        let file: CaseFile = toml::from_str(&text).map_err(|toml| error(toml.to_string()))?;
        if let Some(set) = file.alike.iter().find(|set| set.len() < 2) {
            return Err(error(format!("`alike` needs two names or more, not {set:?}")));
        }
        let dir = path.parent().unwrap_or(Path::new(""));
        let beside = |file: &Path| {
            let file = dir.join(file);
            std::fs::read_to_string(&file).map_err(|io| error(format!("{} cannot be read: {io}", file.display())))
        };
        if file.recorded.is_none() && file.rows.is_none() {
            return Err(error("neither `recorded` nor `rows` contains recordings".to_owned()));
        }
        let mut tables = file.recorded.unwrap_or_default();
        if let Some(rows) = &file.rows {
            let read = rows::read(&beside(rows)?).map_err(|says| error(format!("{}: {says}", rows.display())))?;
            tables.extend(read);
        }
        let mut recorded = Vec::new();
        for table in tables {
            let kernel = KernelVersion::from_name(&table.kernel)
                .ok_or_else(|| error(format!("no preset is named `{}`", table.kernel)))?;
            let release = match &table.release {
                None => kernel,
                Some(name) => KernelVersion::of_release(name)
                    .filter(|release| release.preset() == kernel)
                    .ok_or_else(|| error(format!("`{name}` is no release of `{}`", table.kernel)))?,
            };
            let caches = table.caches.map_or(1, NonZeroU32::get);
            if !table.cpus.is_multiple_of(caches) {
                return Err(error(format!("`caches` is {caches}: it divides the number of CPUs, {}", table.cpus)));
            }
            let machine = Topology::new(caches, 1, table.cpus / caches, 1);
            let machine = machine.map_err(|topology| error(topology.to_string()))?;
            let mut figures = table.figures;
            let mut distributions = BTreeMap::new();
            for (name, quantiles) in table.quantiles {
                if !figures.contains_key(&name) {
                    return Err(error(format!("`quantiles` has `{name}`, and `figures` has no distance of that name")));
                }
                let of = Of::named(&name).ok_or_else(|| error(format!("`{name}` is no distance of distributions")))?;
                let read = Distribution::read(of, quantiles).map_err(|says| error(format!("`{name}`: {says}")))?;
                distributions.insert(name, read);
            }
            let sequence = match table.sequence {
                None => None,
                Some(path) => {
                    let says = |says| error(format!("{}: {says}", path.display()));
                    let sequence = Sequence::parse(&beside(&path)?).map_err(says)?;
                    if file.band.contains_key(SEQUENCE) {
                        figures.insert(SEQUENCE.to_owned(), 100.0.into());
                    }
                    if file.band.contains_key(TURN_DISTANCE) {
                        for (task, turns) in sequence.lengths(&file.alike) {
                            if turns.len() >= TURNS_ENOUGH {
                                let name = format!("{TURN_DISTANCE}.{task}");
                                distributions.insert(name.clone(), Distribution::of(Of::Sequence, turns));
                                figures.insert(name, 0.0.into());
                            }
                        }
                    }
                    Some(sequence)
                }
            };
            let costs = match table.costs {
                None => None,
                Some(file) => {
                    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                    let times = table.costs_times.map_or(1, NonZeroU32::get);
                    let read = Costs::from_toml(&name, &slowed(&beside(&file)?, times));
                    Some(read.map_err(|toml| error(format!("{}: {toml}", file.display())))?)
                }
            };
            let mut created_on: Vec<(Vec<CpuId>, usize)> = Vec::new();
            for take in table.created_on {
                if let Some(cpu) = take.iter().find(|cpu| **cpu >= table.cpus) {
                    let last = table.cpus - 1;
                    return Err(error(format!("`created_on` has CPU {cpu}: the machine has CPUs 0..={last}")));
                }
                let take: Vec<CpuId> = take.into_iter().map(CpuId).collect();
                match created_on.iter_mut().find(|(known, _)| *known == take) {
                    Some((_, takes)) => *takes += 1,
                    None => created_on.push((take, 1)),
                }
            }
            if let Some(permille) = table.first_permille.filter(|permille| *permille > 1000) {
                return Err(error(format!("`first_permille` is {permille}: it is 0 to 1000")));
            }
            let beyond = |thread: &&Thread| thread.cpu.is_some_and(|cpu| cpu >= table.cpus);
            if let Some(thread) = table.threads.iter().find(beyond) {
                let (name, last) = (&thread.name, table.cpus - 1);
                return Err(error(format!("thread `{name}` is on another CPU than 0..={last}")));
            }
            recorded.push(Recording {
                kernel,
                release,
                on: table.on,
                variant: table.variant,
                machine,
                settings: table.settings.into_iter().collect(),
                parameters: table.parameters.into_iter().collect(),
                turns_of: Duration::from_micros(table.turns_of_us),
                first_permille: table.first_permille,
                costs,
                created_on,
                threads: table.threads,
                from: Instant::ZERO + Duration::from_millis(table.from_ms),
                window: Duration::from_millis(table.window_ms),
                figures,
                sequence,
                distributions,
                because: table.because,
            });
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let case = Self {
            name,
            path: path.to_owned(),
            title: file.title,
            workload: dir.join(file.workload),
            alike: file.alike,
            turn_within: Duration::from_micros(file.turn_within_us),
            begins: file.begins.unwrap_or(Begins::ONCE),
            bands: file.band,
            recorded,
        };
        for (figure, recorded) in case.recorded.iter().flat_map(|recording| &recording.figures) {
            case.band(figure)?;
            let Recorded { mean, least, most, .. } = *recorded;
            if !(least <= mean && mean <= most) {
                return Err(case.error(format!("`{figure}`: the mean, {mean}, is not between {least} and {most}")));
            }
        }
        Ok(case)
    }

    /// Returns the band of a figure: of its full name, else of its kind, the part before the first
    /// `.` or `/`.
    ///
    /// # Errors
    /// The file declares none.
    pub fn band(&self, figure: &str) -> Result<Band, CaseError> {
        let kind = figure.split_once(['.', '/']).map_or(figure, |(kind, _)| kind);
        let declared = self.bands.get(figure).or_else(|| self.bands.get(kind)).copied();
        let says = || format!("no band is declared for `{figure}`: add [band.{kind}] with `absolute` or `percent`");
        declared.ok_or_else(|| self.error(says()))
    }

    pub(super) fn error(&self, says: String) -> CaseError {
        CaseError { path: self.path.clone(), says }
    }
}

mod rows {
    //! Recordings as rows of a CSV file.

    use super::RecordingTable;
    use std::collections::BTreeMap;

    /// Returns the recordings; fields have no quotes and no commas.
    ///
    /// # Errors
    /// The mistake and its line.
    pub(super) fn read(text: &str) -> Result<Vec<RecordingTable>, String> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.starts_with('#') && !line.is_empty());
        let Some((_, head)) = lines.next() else { return Err("there is no first line".to_owned()) };
        let columns: Vec<&str> = head.split(',').collect();
        let mut rows = Vec::new();
        for (number, line) in lines {
            let fields: Vec<&str> = line.split(',').collect();
            if fields.len() != columns.len() {
                return Err(format!("line {number}: {} fields under {} columns", fields.len(), columns.len()));
            }
            rows.push(row(&columns, &fields).map_err(|says| format!("line {number}: {says}"))?);
        }
        Ok(rows)
    }

    fn row(columns: &[&str], fields: &[&str]) -> Result<RecordingTable, String> {
        let said: BTreeMap<&str, &str> =
            columns.iter().copied().zip(fields.iter().copied()).filter(|(_, field)| !field.is_empty()).collect();
        let text = |column: &str| said.get(column).copied().ok_or_else(|| format!("`{column}` is missing"));
        let whole = |column: &str| {
            let field = text(column)?;
            field.parse::<u64>().map_err(|_| format!("`{column}` is `{field}`, not a whole number"))
        };
        let below = |prefix: &str| {
            let named = said.iter().filter_map(|(column, field)| Some((column.strip_prefix(prefix)?, *field)));
            named.map(|(name, field)| (name.to_owned(), field.to_owned())).collect::<BTreeMap<_, _>>()
        };
        let mut figures = BTreeMap::new();
        for (name, field) in below("figures.") {
            let value: f64 = field.parse().map_err(|_| format!("`figures.{name}` is `{field}`, not a number"))?;
            figures.insert(name, value.into());
        }
        Ok(RecordingTable {
            kernel: text("kernel")?.to_owned(),
            release: said.get("release").map(|&release| release.to_owned()),
            on: text("on")?.to_owned(),
            variant: said.get("variant").map(|&variant| variant.to_owned()),
            cpus: u32::try_from(whole("cpus")?).map_err(|_| "too many CPUs".to_owned())?,
            caches: None,
            settings: below("settings."),
            parameters: below("parameters."),
            turns_of_us: if said.contains_key("turns_of_us") { whole("turns_of_us")? } else { 0 },
            first_permille: None,
            costs: said.get("costs").map(Into::into),
            costs_times: None,
            created_on: Vec::new(),
            threads: Vec::new(),
            from_ms: whole("from_ms")?,
            window_ms: whole("window_ms")?,
            figures,
            quantiles: BTreeMap::new(),
            sequence: said.get("sequence").map(Into::into),
            because: said.get("because").map(|&because| because.to_owned()),
        })
    }

    #[cfg(test)]
    mod tests {
        use super::read;

        #[test]
        fn a_row_is_a_recording() {
            let text = "# origin\nkernel,on,cpus,from_ms,window_ms,parameters.loops,figures.used/g,because\n6.1,here,2,500,5000,4,99.5,\n";
            let rows = read(text).expect("a row");
            assert_eq!((rows[0].cpus, rows[0].figures["used/g"].mean, &*rows[0].parameters["loops"]), (2, 99.5, "4"));
            assert_eq!((rows[0].turns_of_us, &rows[0].because), (0, &None));
            let rows = read("kernel,on,cpus,from_ms,window_ms,turns_of_us\n6.1,here,2,500,5000,100\n").expect("a row");
            assert_eq!(rows[0].turns_of_us, 100);
        }

        #[test]
        fn what_is_wrong_is_said_with_its_line() {
            let said = |line: &str| read(&format!("kernel,on,cpus,from_ms,window_ms\n{line}\n")).err().expect("wrong");
            assert_eq!(said("6.1,here,2,500"), "line 2: 4 fields under 5 columns");
            assert_eq!(said("6.1,here,two,500,1"), "line 2: `cpus` is `two`, not a whole number");
            assert_eq!(said("6.1,,2,500,1"), "line 2: `on` is missing");
        }
    }
}
