//! Tasks that do the same share one program.
//!
//! A workload of ten thousand threads names ten thousand definitions, each with phases and actions
//! of its own, which are often equal. Each task then reads other cache lines for the same actions.
//! So a task follows the phases of its *model*: the first definition that does the same.

use zerolag_workload::program::{Phase, Program, TaskDef};

/// How many models a definition is compared with, the latest first.
const COMPARED: usize = 16;

/// Returns the model of each definition. O(definitions x actions).
pub(super) fn models(program: &Program) -> Vec<u32> {
    let defs = &program.tasks;
    let mut distinct: Vec<usize> = Vec::new();
    let model_of = |def: usize| {
        let same = distinct.iter().rev().take(COMPARED).find(|model| do_the_same(&defs[**model], &defs[def]));
        let model = same.copied().unwrap_or(def);
        if model == def {
            distinct.push(def);
        }
        u32::try_from(model).expect("invariant: inputs are below 4 GiB")
    };
    (0..defs.len()).map(model_of).collect()
}

/// Returns whether tasks of two definitions go through the same actions. They may start in
/// different ways.
fn do_the_same(one: &TaskDef, other: &TaskDef) -> bool {
    let are_equal = |(one, other): (&Phase, &Phase)| {
        let Phase { name: _, loops, attr, affinity, group, actions } = one;
        (loops, attr, group) == (&other.loops, &other.attr, &other.group)
            && *affinity == other.affinity
            && *actions == other.actions
    };
    one.turns == other.turns
        && one.phases.len() == other.phases.len()
        && one.phases.iter().zip(&other.phases).all(are_equal)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerolag_model::{Duration, SchedAttr};
    use zerolag_workload::program::Action;
    use zerolag_workload::random::Dist;

    #[test]
    fn definitions_that_differ_only_in_names_share_a_model() {
        let task = |name: &str, us| {
            let run = Action::Run(Dist::Constant(Duration::from_micros(us)));
            TaskDef::looping(name, SchedAttr::NORMAL, vec![run])
        };
        let ends = TaskDef { turns: Some(3), ..task("ends", 1) };
        let tasks = vec![task("a", 1), task("b", 2), task("c", 1), ends, task("d", 2)];
        assert_eq!(models(&Program { tasks, ..Program::default() }), [0, 1, 0, 3, 1]);
    }
}
