//! The kernel's description of a trace point: tracefs `events/*/*/format`.
//!
//! ```text
//! name: sched_switch
//! ID: 372
//! format:
//!     field:char prev_comm[16];  offset:8;  size:16;  signed:0;
//! ```
//!
//! Recorders of binary traces store these texts, because offsets change with the kernel.

/// A trace point that is used, with its fields.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Format {
    pub(crate) name: String,
    pub(crate) id: u64,
    fields: Vec<Field>,
    /// How the kernel prints an event: a format of `printf` and its arguments; empty if it is not
    /// told.
    pub(crate) print: String,
}

/// A field of a payload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    name: String,
    pub(crate) offset: usize,
    pub(crate) size: usize,
    /// The field is an offset and a length, where the text is (`__data_loc`).
    pub(crate) is_elsewhere: bool,
}

impl Format {
    /// Parses the text of one trace point; `None` if it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let name = lines.next()?.strip_prefix("name: ")?.trim().to_owned();
        let id = lines.next()?.strip_prefix("ID: ")?.trim().parse().ok()?;
        let print = text.split_once("\nprint fmt: ").map_or("", |(_, print)| print).to_owned();
        let fields = lines.filter_map(Field::parse).take(FIELDS_MAX).collect();
        Some(Self { name, id, fields, print })
    }

    /// Returns the field of a name.
    pub(crate) fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(';').map(str::trim);
        let declaration = parts.next()?.strip_prefix("field:")?;
        let number = |part: Option<&str>, key: &str| part?.strip_prefix(key)?.parse().ok();
        let offset = number(parts.next(), "offset:")?;
        let size = number(parts.next(), "size:")?;
        let name = declaration.rsplit([' ', '*']).next()?;
        let name = name.split('[').next().unwrap_or(name).to_owned();
        Some(Self { name, offset, size, is_elsewhere: declaration.starts_with("__data_loc") })
    }
}

/// More fields than any trace point has.
const FIELDS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name() {
        let text = "name: sched_process_fork\nID: 366\nformat:\n\tfield:unsigned short common_type;\toffset:0;\tsize:2;\t\
                    signed:0;\n\n\tfield:__data_loc char[] parent_comm;\toffset:8;\tsize:4;\tsigned:0;\n\tfield:char \
                    x_comm[16];\toffset:12;\tsize:16;\tsigned:0;\n\nprint fmt: \"field:int pid; offset:1; size:4;\"";
        let format = Format::parse(text).expect("a format");
        assert_eq!((format.name.as_str(), format.id), ("sched_process_fork", 366));
        let place = |name| format.field(name).map(|field| (field.offset, field.size, field.is_elsewhere));
        assert_eq!(place("common_type"), Some((0, 2, false)));
        assert_eq!(place("parent_comm"), Some((8, 4, true)));
        assert_eq!(place("x_comm"), Some((12, 16, false)));
        assert_eq!(place("pid"), None);
        assert_eq!(Format::parse("hello"), None);
    }
}
