//! The policy of a simulation as its user writes it: `policy=vtime`, `policy.saved=3`.

use super::plan::{POLICY, Plan};
use crate::error::ValueError;
use crate::values;
use zerolag_policy::{Param, PolicyFactory};

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
    let mut set = Vec::new();
    for (key, value) in values {
        let Some(name) = key.strip_prefix(POLICY) else { continue };
        let Some(policy) = given.map(PolicyFactory::make).or_else(|| plan.loaded()) else {
            wrong.push(ValueError::new(key, value, "no policy is loaded").help("choose one: policy=vtime"));
            continue;
        };
        let read = |(index, param): (usize, &Param)| param.read(value).map(|value| (index, value));
        match policy.params().iter().enumerate().find(|(_, param)| param.name == name).map(read) {
            Some(Ok(param)) => set.push(param),
            Some(Err(why)) => wrong.push(ValueError::new(key, value, why)),
            None => {
                let why = format!("the policy {} has no parameter `{name}`", policy.ops().name);
                wrong.push(ValueError::new(key, value, why).help(known(policy.params())));
            }
        }
    }
    plan.policy_params = set;
}

/// Returns what a policy's parameters are, as advice.
fn known(params: &[Param]) -> String {
    let line = |param: &Param| {
        let [least, most] = [param.range.start(), param.range.end()].map(|value| param.show(*value));
        format!("{} ({}; {least} to {most}, default {})", param.name, param.meaning, param.show(param.default))
    };
    match params {
        [] => "it has none".to_owned(),
        _ => format!("it has {}", params.iter().map(line).collect::<Vec<_>>().join(", ")),
    }
}
