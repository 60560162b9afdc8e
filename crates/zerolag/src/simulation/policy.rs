//! The policy of a simulation as its user writes it: `policy=vtime`, `policy.saved=3`.

use super::plan::{POLICY, Plan};
use crate::error::ValueError;
use crate::values;
use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use zerolag_policy::{Param, Policy, PolicyFactory, TextParam};

/// Returns the policy of a value of `policy` that is no built-in one, a file for example; or the
/// reason why there is none, and what would be right. `None` if it is no such value.
pub type PolicyLoader = fn(&str) -> Option<Result<PolicyFactory, (String, String)>>;

/// Loads the policy of a value.
///
/// # Errors
/// The reason, and what would be right if that is not in it.
pub(super) fn set_policy(
    loader: Option<PolicyLoader>,
    value: &str,
    plan: &mut Plan,
) -> Result<(), (String, Option<String>)> {
    match loader.and_then(|load| load(value)) {
        Some(loaded) => {
            let policy = loaded.map_err(|(why, help)| (why, Some(help)))?;
            *plan = plan.clone().with_policy(policy);
        }
        None => {
            let policy = values::policy(value).map_err(|why| (why, None))?;
            plan.policy = None;
            plan.config.settings.load_scheduler(policy);
        }
    }
    Ok(())
}

/// Sets the parameters of the policy, which is `given` or that of the plan, or notes the mistakes.
pub(super) fn set_policy_params<'v>(
    given: Option<&PolicyFactory>,
    values: impl Iterator<Item = &'v (String, String)>,
    plan: &mut Plan,
    wrong: &mut Vec<ValueError>,
) {
    let (mut set, mut texts) = (Vec::new(), Vec::new());
    for (key, value) in values {
        let Some(name) = key.strip_prefix(POLICY) else { continue };
        let Some(mut policy) = given.map(PolicyFactory::make).or_else(|| plan.loaded()) else {
            wrong.push(ValueError::new(key, value, "no policy is loaded").help("choose one: policy=vtime"));
            continue;
        };
        if let Some(index) = policy.texts().iter().position(|text| text.name == name) {
            match read_text(&mut *policy, index, value) {
                Ok(text) => texts.push((index, text)),
                Err(mistakes) => {
                    wrong.extend(mistakes.into_iter().map(|(why, help)| ValueError::new(key, value, why).help(help)));
                }
            }
            continue;
        }
        let read = |(index, param): (usize, &Param)| param.read(value).map(|value| (index, value));
        match policy.params().iter().enumerate().find(|(_, param)| param.name == name).map(read) {
            Some(Ok(param)) => set.push(param),
            Some(Err(why)) => wrong.push(ValueError::new(key, value, why)),
            None => {
                let why = format!("the policy {} has no parameter `{name}`", policy.ops().name);
                wrong.push(ValueError::new(key, value, why).help(known(&*policy)));
            }
        }
    }
    (plan.policy_params, plan.policy_texts) = (set, texts);
}

impl Plan {
    /// Sets parameters of the policy that the plan has, `policy.NAME`, in place of those that it
    /// had.
    ///
    /// # Errors
    /// All mistakes; nothing is changed then.
    pub fn set_policy_values(&mut self, values: &[(String, String)]) -> Result<(), Vec<ValueError>> {
        let (mut plan, mut wrong) = (self.clone(), Vec::new());
        set_policy_params(None, values.iter(), &mut plan, &mut wrong);
        if !wrong.is_empty() {
            return Err(wrong);
        }
        *self = plan;
        Ok(())
    }
}

/// Reads a text of a policy: a value with white space is the text itself, another one the path of a
/// file. Returns the text, or each mistake and what would be right.
fn read_text(policy: &mut dyn Policy, index: usize, value: &str) -> Result<Arc<str>, Vec<(String, String)>> {
    let is_text = TextParam::is_text(value);
    let text = if is_text { Ok(value.to_owned()) } else { read_file(value) };
    let text = text.map_err(|why| {
        let help = "the path of a file, or the text itself, which has white space";
        vec![(format!("{value}: {why}"), help.to_owned())]
    })?;
    let place = if is_text { String::new() } else { format!("{value}:") };
    match policy.set_text(index, &text) {
        Ok(()) => Ok(text.into()),
        Err(wrong) => Err(wrong.into_iter().map(|wrong| (format!("{place}{wrong}"), wrong.help)).collect()),
    }
}

/// Reads the file of a text, which can be anything: `/dev/zero` has no end.
fn read_file(path: &str) -> Result<String, String> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(TextParam::BYTES_MAX as u64 + 1).read_to_string(&mut text));
    read.map_err(|error| error.to_string())?;
    match text.len() > TextParam::BYTES_MAX {
        true => Err(format!("it is longer than {} bytes", TextParam::BYTES_MAX)),
        false => Ok(text),
    }
}

/// Returns what a policy's parameters are, as advice.
fn known(policy: &dyn Policy) -> String {
    let line = |param: &Param| {
        let [least, most] = [param.range.start(), param.range.end()].map(|value| param.show(*value));
        format!("{} ({}; {least} to {most}, default {})", param.name, param.meaning, param.show(param.default))
    };
    let text = |text: &TextParam| format!("{} ({}; a text or the path of a file)", text.name, text.meaning);
    let known: Vec<String> = policy.params().iter().map(line).chain(policy.texts().iter().map(text)).collect();
    if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) }
}
