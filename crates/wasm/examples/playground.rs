//! Writes the playground: one page that has the simulator, the examples and the lessons in it, so
//! that it opens from a disk as well as from any static host.
//!
//! Arguments: the directory to write, the WebAssembly module as the compiler made it, the directory
//! of the examples. `engine/` in the written directory has the module and its glue by themselves.
//! `wasm-bindgen` is called as a library, so that Cargo.lock pins it and all that it needs.

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::{Error, Result, Write};
use std::path::Path;
use wasm_bindgen_cli_support::Bindgen;
use zerolag::html::escape::escape;
use zerolag::html::pack::base64;
use zerolag::html::page;

const SCRIPT: &str = concat!(
    "(() => {\n\"use strict\";\n",
    include_str!("../web/sliders.js"),
    include_str!("../web/elements.js"),
    include_str!("../web/policy-file.js"),
    include_str!("../web/own.js"),
    include_str!("../web/playground.js"),
    "})();\n"
);
const STYLE: &str = include_str!("../web/playground.css");
const WORKER: &str =
    concat!(include_str!("../web/policy-file.js"), include_str!("../web/policy.js"), include_str!("../web/worker.js"));
const BODY: &str = include_str!("../web/playground.html");
const LESSONS: &str = include_str!("../web/lessons.json");
/// Schedulers to begin with.
const POLICIES: [(&str, &str); 4] = [
    ("fifo", include_str!("../web/policies/fifo.js")),
    ("vtime", include_str!("../web/policies/vtime.js")),
    ("woken first", include_str!("../web/policies/woken-first.js")),
    ("shortest first", include_str!("../web/policies/srtf.js")),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [out, module, examples] = &arguments[..] else {
        return Err(Error::other("usage: playground OUT MODULE.wasm EXAMPLES"));
    };
    let engine = Path::new(out).join("engine");
    let glued = Bindgen::new()
        .input_path(module)
        .no_modules(true)
        .and_then(|bindgen| {
            bindgen.typescript(false).remove_name_section(true).remove_producers_section(true).generate(&engine)
        })
        .map_err(|error| Error::other(format!("{module}: {error:#}")));
    glued?;
    let module = std::fs::read(engine.join("zerolag_wasm_bg.wasm"))?;
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(&module)?;
    let deflated = deflated.finish()?;
    let page =
        page(&deflated, &std::fs::read_to_string(engine.join("zerolag_wasm.js"))?, &gallery(Path::new(examples))?);
    std::fs::write(Path::new(out).join("index.html"), &page)?;
    eprintln!("{out}/index.html: {} bytes; module {} bytes, {} deflated", page.len(), module.len(), deflated.len());
    Ok(())
}

/// Returns the examples with their questions, in order of name.
fn gallery(dir: &Path) -> Result<Value> {
    let mut paths: Vec<_> =
        std::fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|end| end == "toml" || end == "json"));
    paths.sort();
    let one = |path: &std::path::PathBuf| -> Result<Value> {
        let text = std::fs::read_to_string(path)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let first = text.lines().find(|line| line.contains(|c: char| c.is_ascii_uppercase())).unwrap_or_default();
        let title = first.trim_start_matches(|c: char| !c.is_ascii_uppercase()).trim_end_matches(|c| "*/ ".contains(c));
        Ok(json!({ "name": name, "title": title, "text": text }))
    };
    paths.iter().map(one).collect()
}

fn page(module: &[u8], glue: &str, gallery: &Value) -> String {
    let hash = |text: &str| format!("'sha256-{}'", base64(&Sha256::digest(text.as_bytes())));
    let (report_script, report_style) = page::hashes();
    // A report is shown in a frame, which also obeys the policy of this page.
    let policy = format!(
        "default-src 'none'; script-src {} {report_script} 'wasm-unsafe-eval' blob:; style-src {} {report_style}; \
         worker-src blob:; img-src data:; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    // What is in a data block must not end it.
    let data = |id: &str, text: &str| {
        format!("<script type=\"text/plain\" id=\"{id}\">{}</script>\n", text.replace("</script", "<\\/script"))
    };
    let lessons = LESSONS.replace('<', "\\u003c");
    let policies: Value = POLICIES.iter().map(|(name, text)| json!({ "name": name, "text": text })).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{BODY}{}{}{}{}{}{}\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        escape("zerolag playground"),
        data("data-gallery", &gallery.to_string().replace('<', "\\u003c")),
        data("data-lessons", &lessons),
        data("data-policies", &policies.to_string().replace('<', "\\u003c")),
        data("data-glue", glue),
        data("data-worker", WORKER),
        data("data-engine", &base64(module)),
    )
}
