//! [`shrink`](fn@shrink): takes away what a finding does not need.

use super::draft::{Draft, ScenarioLine};
use zerolag::background::Background;

/// Returns a smaller draft for which `is_same` still holds: no table, line or step of it can be
/// taken away. `is_same` is called at most `tries` times.
///
/// The top level stays: without a duration a run could go on forever. Tables go first, in halves,
/// then lines, then items of lists, and again until nothing more goes: a line that is gone can make
/// a table superfluous.
pub fn shrink(draft: &Draft, tries: u32, mut is_same: impl FnMut(&Draft) -> bool) -> Draft {
    let (mut best, mut left) = (draft.clone(), tries);
    let mut attempt = |best: &mut Draft, smaller: Draft, left: &mut u32| {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        let is_smaller = is_same(&smaller);
        if is_smaller {
            *best = smaller;
        }
        is_smaller
    };
    loop {
        let before = best.clone();
        let mut size = best.blocks.len().div_ceil(2);
        while size > 0 {
            let mut from = 1;
            while from < best.blocks.len() {
                let to = (from + size).min(best.blocks.len());
                let mut smaller = best.clone();
                smaller.blocks.drain(from..to);
                if !attempt(&mut best, smaller, &mut left) {
                    from = to;
                }
            }
            size /= 2;
        }
        for block in 1..best.blocks.len() {
            for line in (0..best.blocks[block].lines.len()).rev() {
                let mut smaller = best.clone();
                smaller.blocks[block].lines.remove(line);
                if attempt(&mut best, smaller, &mut left) {
                    continue;
                }
                let ScenarioLine::List(_, items) = &best.blocks[block].lines[line] else { continue };
                for item in (0..items.len()).rev() {
                    let mut smaller = best.clone();
                    let ScenarioLine::List(_, items) = &mut smaller.blocks[block].lines[line] else { continue };
                    items.remove(item);
                    attempt(&mut best, smaller, &mut left);
                }
            }
        }
        for smaller in around(&best) {
            attempt(&mut best, smaller, &mut left);
        }
        for line in (0..best.costs.as_ref().map_or(0, |costs| costs.lines.len())).rev() {
            let mut smaller = best.clone();
            let Some(costs) = &mut smaller.costs else { break };
            costs.lines.remove(line);
            attempt(&mut best, smaller, &mut left);
        }
        if best == before || left == 0 {
            return best;
        }
    }
}

/// Returns the drafts without what is around them: the kernel's threads, and costs of their own.
fn around(draft: &Draft) -> Vec<Draft> {
    let mut all = Vec::new();
    if draft.background != Background::Profile {
        all.push(Draft { background: Background::Profile, ..draft.clone() });
    }
    if draft.costs.is_some() {
        all.push(Draft { costs: None, ..draft.clone() });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fuzz::draft::Block;

    #[test]
    fn costs_and_threads_that_are_not_needed_go() {
        let mut costs = Block::new("");
        costs.line("tick = \"1us\"").line("pick = \"2us\"");
        let background = Background::Kernel;
        let draft = Draft { blocks: vec![Block::new("")], costs: Some(costs), background, ..Draft::default() };
        let small = shrink(&draft, 100, |draft| draft.costs().is_some_and(|costs| costs.contains("pick")));
        assert_eq!((small.costs().as_deref(), small.background), (Some("pick = \"2us\"\n"), Background::Profile));
    }

    #[test]
    fn what_is_not_needed_goes() {
        let mut draft = Draft { blocks: vec![Block::new("")], ..Draft::default() };
        for nth in 0..9 {
            let mut block = Block::new(format!("[task.t{nth}]"));
            block
                .line("nice = 1")
                .line("delay = \"1s\"")
                .list("steps", vec!["a".to_owned(), "b".to_owned(), "c".to_owned()]);
            draft.blocks.push(block);
        }
        let needs = |draft: &Draft| {
            let text = draft.to_string();
            text.contains("[task.t3]") && text.contains("[task.t7]\ndelay") && text.contains('b')
        };
        let mut tries = 0;
        let small = shrink(&draft, 1_000, |smaller| {
            tries += 1;
            needs(smaller)
        });
        assert!(needs(&small) && tries < 200, "{tries} tries");
        assert_eq!(small.to_string().matches('b').count(), 1, "{small}");
        assert_eq!((small.blocks.len() - 1, small.to_string().matches("nice").count()), (2, 0), "{small}");
    }

    #[test]
    fn tries_are_bounded() {
        let mut draft = Draft { blocks: vec![Block::new("")], ..Draft::default() };
        draft.blocks.extend((0..100).map(|nth| Block::new(format!("[task.t{nth}]"))));
        let mut tries = 0;
        let _ = shrink(&draft, 10, |_| {
            tries += 1;
            false
        });
        assert_eq!(tries, 10);
    }
}
