//! The floors inside a crate: a module may use those below it, and no others.
//!
//! A compiler checks which crate uses which, but lets the modules of one crate use each other in
//! any circle. Such a circle can only be read, moved and tested as a whole. So each crate that is
//! listed here has a table: its floors from the ground up, and on each floor its *rooms*. A room is
//! one module (`queue`, `kernel/lock`), a folder (`program`: all its modules without a room of
//! their own), or several modules that call each other by nature, separated by spaces;
//! `ARCHITECTURE.md` gives the reason for each of these.
//!
//! The check reads the paths that begin with `crate::` or `super::`, in `use` lines and in code, up
//! to the unit tests. It does not read methods: a caller of a method has the type, and has named
//! it, or got it from below.

mod core;
mod lab;
mod runtime;
mod sim;
mod tenants;
mod trace;
mod zerolag;

use std::path::Path;

/// The floors of a crate, ground first, and the rooms on each.
type Floors = &'static [&'static [&'static str]];

/// The crates whose floors are checked, by directory.
pub(crate) const CRATES: &[(&str, Floors)] = &[
    ("core", core::FLOORS),
    ("trace", trace::FLOORS),
    ("sim", sim::FLOORS),
    ("tenants", tenants::FLOORS),
    ("runtime", runtime::FLOORS),
    ("zerolag", zerolag::FLOORS),
    ("lab", lab::FLOORS),
];

/// A room of a table and the floor on which it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Room {
    floor: usize,
    modules: &'static str,
}

/// Returns the room of a module: the one that names the longest part of its path.
fn room_of(floors: Floors, module: &str) -> Option<Room> {
    let rooms = floors.iter().enumerate().flat_map(|(floor, rooms)| rooms.iter().map(move |room| (floor, *room)));
    let named = rooms.flat_map(|(floor, modules)| modules.split(' ').map(move |name| (Room { floor, modules }, name)));
    let holds = |name: &str| module.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    named.filter(|(_, name)| holds(name)).max_by_key(|(_, name)| name.len()).map(|(room, _)| room)
}

/// Returns the path of a module from the path of its file below `src`.
pub(crate) fn module_of(file: &Path) -> String {
    let path = file.with_extension("").to_string_lossy().replace('\\', "/");
    path.strip_suffix("/mod").unwrap_or(&path).to_owned()
}

/// Returns the violations by the paths in one file of a crate, with their lines.
pub(crate) fn check(floors: Floors, module: &str, code: &[(usize, &str)]) -> Vec<(usize, String)> {
    let Some(own) = room_of(floors, module) else {
        return vec![(1, format!("`{module}` has no room in the table of floors"))];
    };
    let mut wrong = Vec::new();
    for (line, path) in paths(code) {
        let Some(target) = resolve(module, &path) else { continue };
        match room_of(floors, &target) {
            None => wrong.push((line, format!("`{path}`: no room in the table of floors has it"))),
            Some(room) if room == own || room.floor < own.floor => {}
            Some(room) => wrong.push((
                line,
                format!("`{path}` is on floor {} (`{}`), and this is floor {}", room.floor, room.modules, own.floor),
            )),
        }
    }
    wrong
}

/// Returns all paths that begin with `crate::` or `super::`; those of a `use` with braces one by
/// one.
fn paths(code: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = code.iter();
    while let Some((number, line)) = lines.next() {
        let text = line.trim_start();
        let text = text.strip_prefix("pub ").or_else(|| text.split_once(") ").map(|(_, rest)| rest)).unwrap_or(text);
        if let Some(tree) = text.strip_prefix("use ") {
            let mut tree = tree.to_owned();
            while !tree.contains(';') {
                let Some((_, more)) = lines.next() else { break };
                tree += more.trim();
            }
            let tree = tree.split(';').next().unwrap_or_default();
            found.extend(leaves("", tree).into_iter().filter(|path| begins(path)).map(|path| (*number, path)));
        } else {
            found.extend(paths_in(line).map(|path| (*number, path)));
        }
    }
    found
}

fn begins(path: &str) -> bool {
    path.starts_with("crate::") || path.starts_with("super::")
}

/// Returns the paths in a line of code.
fn paths_in(line: &str) -> impl Iterator<Item = String> + '_ {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    line.split(move |c| !is_part(c)).filter(|word| begins(word)).map(|word| word.trim_end_matches(':').to_owned())
}

/// Returns the paths of a tree of imports.
fn leaves(before: &str, tree: &str) -> Vec<String> {
    let mut found = Vec::new();
    let (mut depth, mut from) = (0_usize, 0);
    for (at, c) in tree.char_indices().chain([(tree.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = tree[from..at].trim();
                from = at + 1;
                match part.split_once('{') {
                    _ if part.is_empty() => {}
                    Some((head, rest)) => {
                        let inside = rest.strip_suffix('}').unwrap_or(rest);
                        found.extend(leaves(&format!("{before}{head}"), inside));
                    }
                    None => found.push(format!("{before}{}", part.split(" as ").next().unwrap_or(part))),
                }
            }
            _ => {}
        }
    }
    found
}

/// Returns the path from the crate's root that a path in a module means; `None` if it leads
/// nowhere.
fn resolve(module: &str, path: &str) -> Option<String> {
    let mut at: Vec<&str> = module.split('/').collect();
    let mut parts = path.split("::").filter(|part| *part != "self").peekable();
    if parts.next_if_eq(&"crate").is_some() {
        at.clear();
    }
    while parts.next_if_eq(&"super").is_some() {
        at.pop()?;
    }
    at.extend(parts);
    Some(at.join("/")).filter(|path| !path.is_empty())
}

#[test]
fn paths_are_found_and_resolved() {
    let code = [
        (1, "use crate::queue::{Phase, far::{self, Far as Other}};"),
        (2, "pub(crate) use super::lock;"),
        (3, "use std::{"),
        (4, "    rc::Rc};"),
        (5, "    let x = crate::costs::zero(super::y::<u32>());"),
    ];
    let found: Vec<_> =
        paths(&code).iter().map(|(line, path)| (*line, resolve("kernel/path", path).expect("a path"))).collect();
    let expected = [
        (1, "queue/Phase"),
        (1, "queue/far"),
        (1, "queue/far/Far"),
        (2, "kernel/lock"),
        (5, "costs/zero"),
        (5, "kernel/y"),
    ];
    assert_eq!(found, expected.map(|(line, path)| (line, path.to_owned())));
}

#[test]
fn a_module_uses_what_is_below_it_and_its_own_room() {
    const FLOORS: Floors = &[&["words"], &["queue near far"], &["kernel", "device"]];
    let says = |module: &str, line: &str| check(FLOORS, module, &[(1, line)]).len();
    assert_eq!(says("kernel/path", "use crate::{words::A, far::B, kernel::lock::C};"), 0);
    assert_eq!(says("near", "use crate::far::F;"), 0, "one room");
    assert_eq!(says("kernel/path", "use crate::device::Disk;"), 1, "beside it");
    assert_eq!(says("words", "use crate::queue::Phase;"), 1, "above it");
    assert_eq!(says("words", "use crate::attic::Box;"), 1, "nowhere");
    assert_eq!(says("attic", ""), 1, "has no room");
}
