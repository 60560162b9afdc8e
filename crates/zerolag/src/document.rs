//! [`Document`]: the form of a JSON result, derived from the type that is written.
//!
//! A schema written by hand next to the code drifts from it. Every result is a type that derives
//! both `Serialize` and `JsonSchema`, so its published form is the type's, and its descriptions are
//! the comments of the type's fields. All objects are closed: a key that the schema does not have
//! is an error, so a new key shows in the published file.

use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The form of one JSON result.
#[derive(Clone, Copy, Debug)]
pub struct Document {
    /// Its name and version, as in `"schema"` of the result.
    pub name: &'static str,
    /// The commands that write it.
    pub of: &'static str,
    form: fn(&mut SchemaGenerator) -> Schema,
}

impl Document {
    /// Returns the form of a type.
    #[must_use]
    pub const fn of<T: JsonSchema>(name: &'static str, of: &'static str) -> Self {
        Self { name, of, form: T::json_schema }
    }
}

/// Returns the value of a result.
///
/// # Panics
/// Never: results have names as keys and no numbers that JSON lacks.
#[must_use]
pub fn value(of: &impl Serialize) -> Value {
    serde_json::to_value(of).expect("invariant: every result has a form in JSON")
}

/// Returns the text of a result, with indentation and a line break at the end. Keys are in the
/// order of the type.
///
/// # Panics
/// Never: results have names as keys.
#[must_use]
pub fn text(of: &impl Serialize) -> String {
    serde_json::to_string_pretty(of).expect("invariant: every result has a form in JSON") + "\n"
}

/// Returns one JSON Schema (draft 2020-12) for these results, with indentation and a line break at
/// the end: a result matches the definition of its name in `$defs`.
#[must_use]
pub fn schema(documents: &[Document]) -> String {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut forms = Map::new();
    for document in documents {
        let mut form = (document.form)(&mut generator);
        form.insert("title".to_owned(), format!("zerolag {}", document.of).into());
        forms.insert(document.name.to_owned(), form.to_value());
    }
    forms.extend(generator.take_definitions(false));
    let named = documents.iter().map(|document| json!({ "$ref": format!("#/$defs/{}", document.name) }));
    let mut schema = Schema::try_from(json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "zerolag results",
        "description": "What `zerolag ... --json` writes. The form of a result is the definition named by its `schema`.",
        "oneOf": named.collect::<Vec<_>>(),
        "$defs": forms,
    }))
    .expect("invariant: an object is a schema");
    RecursiveTransform(close).transform(&mut schema);
    format!("{:#}\n", schema.to_value())
}

/// Refuses keys that an object does not have.
fn close(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if object.contains_key("properties") && !object.contains_key("additionalProperties") {
        object.insert("additionalProperties".to_owned(), false.into());
    }
}
