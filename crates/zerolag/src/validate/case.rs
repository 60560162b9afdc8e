//! The case file.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use zerolag_model::{Duration, Instant, KernelVersion, Topology};

/// How far a figure may be off: the larger of an absolute distance and a part of the recorded value.
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
    /// Returns the distance that is allowed from a recorded value.
    #[must_use]
    pub fn of(&self, recorded: f64) -> f64 {
        self.absolute.max(recorded.abs() * self.percent / 100.0)
    }
}

/// What one kernel showed.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The preset that it is compared with.
    pub kernel: KernelVersion,
    /// What it ran on, in a few words.
    pub on: String,
    /// The same for us.
    pub machine: Topology,
    /// Settings in which that kernel was built or run otherwise than the preset.
    pub settings: Vec<(String, String)>,
    /// Values for parameters of the workload: what differed from recording to recording, as the phases of periodic tasks.
    pub parameters: Vec<(String, String)>,
    /// Figures are taken from here,
    pub from: Instant,
    /// for so long.
    pub window: Duration,
    /// `kind.name` and value.
    pub figures: BTreeMap<String, f64>,
    /// Why ours is outside the band.
    pub because: Option<String>,
}

/// A workload with recorded figures.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its file's name without extension.
    pub name: String,
    /// Its file.
    pub path: PathBuf,
    /// What it is about.
    pub title: String,
    /// The workload file.
    pub workload: PathBuf,
    /// Sets of tasks that differ in name only.
    pub alike: Vec<Vec<String>>,
    bands: BTreeMap<String, Band>,
    /// What kernels showed.
    pub recorded: Vec<Recording>,
}

/// What is wrong with a case file.
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
    band: BTreeMap<String, Band>,
    recorded: Vec<RecordingTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordingTable {
    kernel: String,
    on: String,
    cpus: u32,
    #[serde(default)]
    settings: BTreeMap<String, String>,
    #[serde(default)]
    parameters: BTreeMap<String, String>,
    from_ms: u64,
    window_ms: u64,
    figures: BTreeMap<String, f64>,
    because: Option<String>,
}

impl Case {
    /// Reads a case file.
    ///
    /// # Errors
    /// It cannot be read, is no TOML, or says what no case says; with line and column where there is one.
    pub fn read(path: &Path) -> Result<Self, CaseError> {
        let error = |says: String| CaseError { path: path.to_owned(), says };
        let text = std::fs::read_to_string(path).map_err(|io| error(format!("cannot be read: {io}")))?;
        let file: CaseFile = toml::from_str(&text).map_err(|toml| error(toml.to_string()))?;
        if let Some(set) = file.alike.iter().find(|set| set.len() < 2) {
            return Err(error(format!("`alike` needs two names or more, not {set:?}")));
        }
        let mut recorded = Vec::new();
        for table in file.recorded {
            let kernel = KernelVersion::from_name(&table.kernel)
                .ok_or_else(|| error(format!("no preset is named `{}`", table.kernel)))?;
            let machine = Topology::flat(table.cpus).map_err(|topology| error(topology.to_string()))?;
            recorded.push(Recording {
                kernel,
                on: table.on,
                machine,
                settings: table.settings.into_iter().collect(),
                parameters: table.parameters.into_iter().collect(),
                from: Instant::ZERO + Duration::from_millis(table.from_ms),
                window: Duration::from_millis(table.window_ms),
                figures: table.figures,
                because: table.because,
            });
        }
        let dir = path.parent().unwrap_or(Path::new(""));
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let case = Self {
            name,
            path: path.to_owned(),
            title: file.title,
            workload: dir.join(file.workload),
            alike: file.alike,
            bands: file.band,
            recorded,
        };
        for figure in case.recorded.iter().flat_map(|recording| recording.figures.keys()) {
            case.band(figure)?;
        }
        Ok(case)
    }

    /// Returns the band of a figure: of its full name, else of its kind.
    ///
    /// # Errors
    /// The file declares none.
    pub fn band(&self, figure: &str) -> Result<Band, CaseError> {
        let kind = figure.split_once('.').map_or(figure, |(kind, _)| kind);
        let declared = self.bands.get(figure).or_else(|| self.bands.get(kind)).copied();
        declared.ok_or_else(|| CaseError {
            path: self.path.clone(),
            says: format!("no band is declared for `{figure}`: add [band.{kind}] with `absolute` or `percent`"),
        })
    }
}
