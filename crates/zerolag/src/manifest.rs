//! [`Manifest`]: the CPU limits of a Kubernetes manifest or a Compose file.
//!
//! The limit that hurts is in a file that an operator has anyhow, so it is read from there instead
//! of being typed again. Only the fields that matter for the CPU are read; everything else is
//! skipped unseen, and a field in an unexpected form is an error with its line.
//!
//! | file | fields |
//! |---|---|
//! | Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob, List | of each container `name`, `resources.limits.cpu`, `resources.requests.cpu` |
//! | the same | `resources.limits.cpu`, `resources.requests.cpu` of the pod itself (pod-level resources, Kubernetes 1.32) |
//! | Compose | of each service `cpus`, `cpu_shares`, `cpu_quota`, `cpu_period`, `deploy.resources.limits.cpus` |
//!
//! A container belongs to the group whose path ends in its name: `api` to `/api` or `/pod/api`.
//! Several pods can have containers of one name; then the path ends in the name of the object and
//! that of the container: `/cart/server`. The only container of an object, and the limit of a pod
//! itself, also belong to the group that is named after the object. If the workload has one limited
//! group and the manifest one container with limits, they belong together whatever their names are.
//! As in Kubernetes, a request that is missing equals the limit.
//!
//! Sources: Kubernetes API reference v1, `ResourceRequirements`; Kubernetes
//! `pkg/apis/core/v1/defaults.go`, `SetDefaults_Pod` (requests default to limits); Compose
//! specification, `05-services.md`, `deploy.md`.

use crate::error::Error;
use crate::knob::{Knob, Part};
use std::fmt;
use std::path::Path;
use std::rc::Rc;
use zerolag_workload::Program;
use zerolag_workload::limits::{LimitPart, milli_cpus};
use zerolag_workload::yaml::{YamlNode, YamlValue, documents};

/// The limits of the containers of a manifest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    name: String,
    containers: Vec<Container>,
}

/// The limits of a container.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Container {
    /// Its name; that of the object for the limits of a pod itself.
    pub name: String,
    /// The name of the Deployment, Pod or the like that it is in, if that has one.
    pub of: Option<String>,
    /// Whether a group that is named after the object is its own: it is the only container, or the
    /// pod itself.
    pub is_alone: bool,
    /// The line of its name, from 1.
    pub line: usize,
    /// `limits.cpu` in thousandths of a CPU; none is no limit.
    pub limit_milli: Option<u64>,
    /// `requests.cpu` in thousandths of a CPU.
    pub request_milli: Option<u64>,
    /// `cpu_shares`.
    pub shares: Option<u64>,
    /// `cpu_quota` in microseconds; -1 is no limit.
    pub quota_us: Option<i64>,
    /// `cpu_period` in microseconds.
    pub period_us: Option<u64>,
}

/// A container that no group of the workload has the name of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unused(String);

impl fmt::Display for Unused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no group of the workload is named `{}`: its limits are left out", self.0)
    }
}

impl Container {
    /// Returns the end of the path of its group, without the first slash: its name, after that of
    /// its object if `needs_object`.
    fn place(&self, needs_object: bool) -> String {
        match &self.of {
            Some(of) if needs_object && *of != self.name => format!("{of}/{}", self.name),
            _ => self.name.clone(),
        }
    }
}

impl Manifest {
    /// Reads the manifest of a file.
    ///
    /// # Errors
    /// The file cannot be read, or is no manifest.
    pub fn file(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let size = std::fs::metadata(path).map_err(|error| Error::reading(&name, &error))?.len();
        if size > SIZE_MAX {
            return Err(Error::input(format!("{name}: a manifest has at most {} MB", SIZE_MAX >> 20)));
        }
        let bytes = std::fs::read(path).map_err(|error| Error::reading(&name, &error))?;
        Self::text(&name, &bytes)
    }

    /// Reads a manifest. `name` stands for the file in messages.
    ///
    /// # Errors
    /// It is not YAML, or a field has an unexpected form: all of these, each with its line.
    pub fn text(name: &str, bytes: &[u8]) -> Result<Self, Error> {
        if bytes.len() as u64 > SIZE_MAX {
            return Err(Error::input(format!("{name}: a manifest has at most {} MB", SIZE_MAX >> 20)));
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            return Err(Error::input(format!("{name}: this is not UTF-8 text")));
        };
        let documents = documents(text).map_err(|wrong| match text.contains("{{") && text.contains("}}") {
            true => Error::input_help(
                format!("{name}:{wrong}"),
                "render a Helm template first: helm template DIR > FILE.yaml",
            ),
            false => Error::input(format!("{name}:{wrong}")),
        })?;
        let mut reader = ManifestReader::default();
        documents.iter().for_each(|document| reader.document(document, 0));
        if !reader.wrong.is_empty() {
            let lines: Vec<String> = reader.wrong.iter().map(|wrong| format!("{name}:{wrong}")).collect();
            return Err(Error::input(lines.join("\nerror: ")));
        }
        let limited = |container: &Container| {
            let in_cpus = container.limit_milli.or(container.request_milli).or(container.shares);
            in_cpus.is_some() || container.quota_us.is_some() || container.period_us.is_some()
        };
        if !reader.containers.iter().any(limited) {
            let what = if reader.containers.is_empty() { "has no containers" } else { "limits no CPU" };
            let help = match reader.is_kustomization {
                true => "render it first: kubectl kustomize DIR > FILE.yaml",
                false => "give a Pod, a Deployment or the like with resources.limits.cpu, or a Compose file with cpus",
            };
            return Err(Error::input_help(format!("{name}: the manifest {what}"), help));
        }
        reader.containers.retain(limited);
        Ok(Self { name: name.to_owned(), containers: reader.containers })
    }

    /// Returns the containers that have a limit or a request.
    #[must_use]
    pub fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// Returns whether other containers have the name of this one.
    fn is_shared(&self, name: &str) -> bool {
        self.containers.iter().filter(|other| other.name == name).count() > 1
    }

    /// Returns the end of the path of the group of a container, for messages.
    #[must_use]
    pub fn place(&self, container: &Container) -> String {
        container.place(self.is_shared(&container.name))
    }

    /// Returns whether a group belongs to a container, by its path.
    #[must_use]
    pub fn owns(&self, container: &Container, path: &str) -> bool {
        let mut parts = path.rsplit('/').filter(|part| !part.is_empty());
        let (last, parent) = (parts.next(), parts.next());
        if container.is_alone && last == container.of.as_deref() {
            return true;
        }
        let is_of_object = container.of.is_some() && parent == container.of.as_deref();
        last == Some(&*container.name) && (is_of_object || !self.is_shared(&container.name))
    }

    /// Sets the limits and weights of the groups that belong to the containers. Returns the
    /// containers without a group.
    ///
    /// # Errors
    /// No container has a group, or the kernel refuses a limit.
    pub fn apply(&self, program: &mut Program) -> Result<Vec<Unused>, Error> {
        let mut unused = Vec::new();
        let mut found = Vec::new();
        for container in &self.containers {
            let named: Vec<usize> =
                (0..program.groups.len()).filter(|index| self.owns(container, &program.groups[*index].path)).collect();
            match &named[..] {
                [] => unused.push(Unused(self.place(container))),
                named => found.extend(named.iter().map(|index| (*index, container))),
            }
        }
        if let ([], [only]) = (&found[..], &self.containers[..])
            && let Some(Ok(knob)) = Knob::find("cpu.max", program)
        {
            unused.clear();
            found.push((knob.index, only));
        }
        if found.is_empty() {
            let paths: Vec<&str> = program.groups.iter().map(|group| &*group.path).collect();
            let names: Vec<String> = self.containers.iter().map(|container| self.place(container)).collect();
            let groups =
                if paths.is_empty() { "it has none".to_owned() } else { format!("it has {}", paths.join(", ")) };
            return Err(Error::input_help(
                format!("{}: no group of the workload belongs to {}; {groups}", self.name, names.join(", ")),
                format!("name a group after its container: [group.\"/{}\"]", names[0]),
            ));
        }
        for (index, container) in found {
            let mut set = |part, value: String| {
                let done = Knob { part: Part::Limit(part), index }.set(program, &value);
                let place = format!("{}:{}: container `{}`", self.name, container.line, container.name);
                done.map_err(|error| Error::input_help(format!("{place}: {error}"), error.help))
            };
            if let Some(period) = container.period_us {
                set(LimitPart::Period, period.to_string())?;
            }
            match (container.limit_milli, container.quota_us) {
                (Some(milli), _) => set(LimitPart::Cpus, format!("{milli}m"))?,
                (None, Some(quota)) => set(LimitPart::Quota, quota.to_string())?,
                (None, None) => set(LimitPart::Cpus, "max".to_owned())?,
            }
            if let Some(shares) = container.shares {
                set(LimitPart::Shares, shares.to_string())?;
            } else if let Some(milli) = container.request_milli.or(container.limit_milli) {
                set(LimitPart::Request, format!("{milli}m"))?;
            }
        }
        Ok(unused)
    }
}

/// A mistake with its line.
struct ManifestError(usize, String);

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

#[derive(Default)]
struct ManifestReader {
    containers: Vec<Container>,
    /// Whether a document tells kustomize what to render.
    is_kustomization: bool,
    wrong: Vec<ManifestError>,
}

impl ManifestReader {
    /// Returns what a key of a mapping has, also of mappings that it merges (`<<`). Anything but a
    /// mapping or nothing is a mistake.
    fn get(&mut self, node: &YamlNode, key: &str) -> Option<Rc<YamlNode>> {
        match &node.what {
            YamlValue::Mapping(pairs) => {
                let own = pairs.iter().find(|(known, _)| known == key).map(|(_, value)| Rc::clone(value));
                own.or_else(|| {
                    let (_, merged) = pairs.iter().find(|(known, _)| known == "<<")?;
                    match &merged.what {
                        YamlValue::Sequence(all) => all.clone().iter().find_map(|one| self.get(one, key)),
                        _ => self.get(&Rc::clone(merged), key),
                    }
                })
            }
            YamlValue::Null => None,
            YamlValue::Scalar(_) | YamlValue::Sequence(_) => {
                let message = format!("expected a mapping with `{key}`, found {}", node.kind());
                self.wrong.push(ManifestError(node.line, message));
                None
            }
        }
        .filter(|found| !matches!(found.what, YamlValue::Null))
    }

    /// Returns what a path of keys leads to.
    fn at(&mut self, node: &YamlNode, path: &[&str]) -> Option<Rc<YamlNode>> {
        let (first, rest) = path.split_first()?;
        let mut found = self.get(node, first)?;
        for key in rest {
            found = self.get(&Rc::clone(&found), key)?;
        }
        Some(found)
    }

    fn text(&mut self, node: &YamlNode, key: &str) -> Option<String> {
        let found = self.get(node, key)?;
        match &found.what {
            YamlValue::Scalar(text) => Some(text.clone()),
            _ => {
                self.wrong.push(ManifestError(found.line, format!("`{key}` is {}, expected a value", found.kind())));
                None
            }
        }
    }

    fn document(&mut self, node: &YamlNode, depth: usize) {
        if depth > LISTS_MAX || matches!(node.what, YamlValue::Null) {
            return;
        }
        let Some(kind) = self.text(node, "kind") else {
            if let Some(services) = self.get(node, "services") {
                self.services(&services);
            }
            return;
        };
        let path: &[&str] = match &*kind {
            "Kustomization" => {
                self.is_kustomization = true;
                return;
            }
            _ if kind.ends_with("List") => {
                let items = self.get(node, "items");
                if let Some(YamlValue::Sequence(items)) = items.as_deref().map(|items| &items.what) {
                    items.iter().for_each(|item| self.document(item, depth + 1));
                }
                return;
            }
            "Pod" => &["spec"],
            "PodTemplate" => &["template", "spec"],
            "CronJob" => &["spec", "jobTemplate", "spec", "template", "spec"],
            // Of Knative, a Service has containers; of Kubernetes itself it has no template.
            "Deployment"
            | "StatefulSet"
            | "DaemonSet"
            | "ReplicaSet"
            | "ReplicationController"
            | "Job"
            | "Rollout"
            | "Service" => &["spec", "template", "spec"],
            // Config maps and others stand in the same file and limit nothing.
            _ => return,
        };
        let Some(spec) = self.at(node, path) else { return };
        let of = self.at(node, &["metadata", "name"]).and_then(|name| match &name.what {
            YamlValue::Scalar(name) => Some(name.clone()),
            YamlValue::Null | YamlValue::Sequence(_) | YamlValue::Mapping(_) => None,
        });
        let first = self.containers.len();
        for (list, needs_restart) in [("containers", false), ("initContainers", true)] {
            let Some(found) = self.get(&spec, list) else { continue };
            let YamlValue::Sequence(items) = &found.what else {
                self.wrong.push(ManifestError(found.line, format!("`{list}` is {}, expected a list", found.kind())));
                continue;
            };
            for item in items {
                // An init container that is restarted is a sidecar; others end before the pod runs.
                if !needs_restart || self.text(item, "restartPolicy").as_deref() == Some("Always") {
                    self.container(item, of.as_deref(), first);
                }
            }
        }
        if let [only] = &mut self.containers[first..] {
            only.is_alone = true;
        }
        // Pod-level resources: the limit of all containers together.
        if self.at(&spec, &["resources"]).is_some() {
            match of {
                Some(name) => self
                    .limits(&spec, Container { of: Some(name.clone()), name, is_alone: true, ..Container::default() }),
                None => {
                    self.wrong.push(ManifestError(spec.line, "a pod with resources has no metadata.name".to_owned()));
                }
            }
        }
    }

    /// Reads a container of an object whose containers begin at `first`.
    fn container(&mut self, node: &YamlNode, of: Option<&str>, first: usize) {
        let Some(name) = self.text(node, "name") else {
            if self.wrong.is_empty() {
                self.wrong.push(ManifestError(node.line, "a container has no name".to_owned()));
            }
            return;
        };
        if self.containers[first..].iter().any(|known| known.name == name) {
            self.wrong.push(ManifestError(node.line, format!("two containers of one pod are named `{name}`")));
            return;
        }
        self.limits(node, Container { name, of: of.map(str::to_owned), ..Container::default() });
    }

    /// Reads the resources of a container, or of a pod.
    fn limits(&mut self, node: &YamlNode, container: Container) {
        let name = &container.name;
        let limit_milli = self.cpus(node, &["resources", "limits", "cpu"]);
        let request_milli = self.cpus(node, &["resources", "requests", "cpu"]);
        if let (Some(limit), Some(request)) = (limit_milli, request_milli)
            && request > limit
        {
            let message = format!("container `{name}`: requests.cpu {request}m is above limits.cpu {limit}m");
            self.wrong.push(ManifestError(node.line, message));
        }
        self.containers.push(Container { line: node.line, limit_milli, request_milli, ..container });
    }

    fn services(&mut self, node: &YamlNode) {
        let YamlValue::Mapping(services) = &node.what else {
            self.wrong.push(ManifestError(node.line, format!("`services` is {}, expected a mapping", node.kind())));
            return;
        };
        for (name, service) in services.iter().filter(|(_, service)| !matches!(service.what, YamlValue::Null)) {
            let limit = self.cpus(service, &["cpus"]);
            let limit_milli = limit.or_else(|| self.cpus(service, &["deploy", "resources", "limits", "cpus"]));
            let container = Container {
                name: name.clone(),
                of: None,
                is_alone: false,
                line: service.line,
                limit_milli,
                request_milli: None,
                shares: self.number(service, "cpu_shares"),
                quota_us: self.number(service, "cpu_quota"),
                period_us: self.number(service, "cpu_period"),
            };
            if let (Some(milli), Some(quota)) = (limit_milli, container.quota_us) {
                let message = format!("service `{name}`: cpus {milli}m and cpu_quota {quota} are two limits");
                self.wrong.push(ManifestError(service.line, message));
            }
            self.containers.push(container);
        }
    }

    /// Returns a whole number.
    fn number<T: std::str::FromStr>(&mut self, node: &YamlNode, key: &str) -> Option<T> {
        let text = self.text(node, key)?;
        let number = text.parse().ok();
        if number.is_none() {
            self.wrong.push(ManifestError(node.line, format!("{key}: `{text}` is not a whole number")));
        }
        number
    }

    /// Returns a number of CPUs in thousandths; zero is none, as in Kubernetes.
    fn cpus(&mut self, node: &YamlNode, path: &[&str]) -> Option<u64> {
        let (key, parents) = path.split_last()?;
        let found = if parents.is_empty() { self.get(node, key)? } else { self.at(node, path)? };
        let text = match &found.what {
            YamlValue::Scalar(text) => text,
            _ => {
                self.wrong
                    .push(ManifestError(found.line, format!("`{key}` is {}, expected a number of CPUs", found.kind())));
                return None;
            }
        };
        let zero = text.trim_end_matches('m');
        if !zero.is_empty() && zero.bytes().all(|byte| matches!(byte, b'0' | b'.')) && zero != "." {
            return None;
        }
        let milli = milli_cpus(text);
        if milli.is_none() {
            let message = format!("{}: `{text}` is not a number of CPUs; write 750m or 0.75", path.join("."));
            self.wrong.push(ManifestError(found.line, message));
        }
        milli
    }
}

/// The largest manifest.
const SIZE_MAX: u64 = 4 << 20;

/// How deep lists of lists are read.
const LISTS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limit::Limit;
    use zerolag_workload::{LoadOptions, load};

    const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: { name: shop }\nspec:\n  containers:\n  - name: web\n    image: x\n    resources:\n      limits: { cpu: 750m, memory: 1Gi }\n      requests: { cpu: \"0.5\" }\n  - name: log\n    image: y\n";

    fn read(text: &str) -> Result<Manifest, String> {
        Manifest::text("pod.yaml", text.as_bytes()).map_err(|error| error.to_string())
    }

    fn program(groups: &str) -> Program {
        let text = format!("{groups}\n[task.a]\nsteps = [{{ run = \"1ms\" }}]\n");
        load("s.toml", text.as_bytes(), &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors}")).program
    }

    #[test]
    fn a_container_limits_the_group_of_its_name() {
        let manifest = read(POD).expect("a pod");
        let container = &manifest.containers()[0];
        assert_eq!((container.limit_milli, container.request_milli), (Some(750), Some(500)));
        assert_eq!(manifest.containers().len(), 1, "the other has no limits");
        for groups in ["[group.\"/web\"]\n[group.\"/db\"]", "[group.\"/pod\"]\n[group.\"/pod/web\"]", "[group.\"/x\"]"]
        {
            let mut program = program(groups);
            assert!(manifest.apply(&mut program).is_ok_and(|unused| unused.is_empty()), "{groups}");
            let limits = Limit::all(&program);
            assert_eq!(limits.len(), 1, "{groups}");
            assert_eq!((&*limits[0].cpu_max, limits[0].cpu_weight), ("75000 100000", Some(59)), "{groups}");
        }
    }
    #[test]
    fn a_container_without_a_group_is_said() {
        let two = "kind: Deployment\nspec: {template: {spec: {containers: [{name: a, resources: {limits: {cpu: 1}}}, {name: b, resources: {limits: {cpu: 2}}}]}}}\n";
        let manifest = read(two).expect("a deployment");
        let mut of_a = program("[group.\"/a\"]\n[group.\"/c\"]");
        let unused = manifest.apply(&mut of_a).expect("one is used");
        assert_eq!(unused, [Unused("b".to_owned())]);
        let error = manifest.apply(&mut program("[group.\"/c\"]")).expect_err("none is used").to_string();
        assert_eq!(
            error,
            "pod.yaml: no group of the workload belongs to a, b; it has /c\n  help: name a group after its container: [group.\"/a\"]"
        );
        let many = read(POD).expect("a pod").apply(&mut program("")).expect_err("no groups").to_string();
        assert!(many.contains("it has none"), "{many}");
    }

    /// As the release manifest of a shop with eleven services, whose containers are all `server`.
    #[test]
    fn containers_of_several_objects_can_share_a_name() {
        let object = |name: &str, cpu: &str| {
            format!(
                "kind: Deployment\nmetadata: {{name: {name}}}\nspec: {{template: {{spec: {{containers: [{{name: server, resources: {{limits: {{cpu: {cpu}}}}}}}]}}}}}}\n"
            )
        };
        let manifest = read(&format!("{}---\n{}", object("mail", "200m"), object("cart", "300m"))).expect("two");
        for (groups, expected) in [
            ("[group.\"/mail\"]\n[group.\"/cart\"]", vec!["20000 100000", "30000 100000"]),
            ("[group.\"/mail\"]\n[group.\"/mail/server\"]", vec!["20000 100000", "20000 100000"]),
            ("[group.\"/shop\"]\n[group.\"/shop/cart\"]", vec!["max 100000", "30000 100000"]),
        ] {
            let mut program = program(groups);
            manifest.apply(&mut program).expect(groups);
            assert_eq!(
                program.groups.iter().map(|group| group.max.to_string()).collect::<Vec<_>>(),
                expected,
                "{groups}"
            );
        }
        let error = manifest.apply(&mut program("[group.\"/server\"]")).expect_err("which of the two?").to_string();
        assert!(
            error.contains("belongs to mail/server, cart/server") && error.contains("[group.\"/mail/server\"]"),
            "{error}"
        );
    }

    #[test]
    fn a_pod_has_limits_of_its_own() {
        let pod = "kind: Pod\nmetadata: {name: p}\nspec:\n  resources: {limits: {cpu: '2'}, requests: {cpu: '1'}}\n  containers:\n  - name: app\n    resources: {limits: {cpu: '1'}}\n  - name: sidecar\n";
        let mut nested = program("[group.\"/p\"]\n[group.\"/p/app\"]\n[group.\"/p/sidecar\"]");
        assert!(read(pod).expect("a pod").apply(&mut nested).is_ok_and(|unused| unused.is_empty()));
        let limits: Vec<String> = nested.groups.iter().map(|group| group.max.to_string()).collect();
        assert_eq!(limits, ["200000 100000", "100000 100000", "max 100000"]);
    }

    #[test]
    fn what_has_to_be_rendered_is_told_how() {
        for (text, part) in [
            ("kind: Kustomization\nresources: [a.yaml]\n", "kubectl kustomize"),
            ("kind: Pod\nspec: {{ .Values.spec }}: x\n}}", "helm template"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn every_kind_and_compose_files_are_read() {
        let containers = "containers: [{name: a, resources: {limits: {cpu: 250m}}}]";
        for text in [
            format!("kind: Job\nspec: {{template: {{spec: {{{containers}}}}}}}"),
            format!("kind: CronJob\nspec: {{jobTemplate: {{spec: {{template: {{spec: {{{containers}}}}}}}}}}}"),
            format!("kind: ConfigMap\ndata: {{x: y}}\n---\nkind: Pod\nspec: {{{containers}}}"),
            format!("kind: List\nitems: [{{kind: Pod, spec: {{{containers}}}}}]"),
            format!("kind: PodList\nitems: [{{kind: Pod, spec: {{{containers}}}}}]"),
            format!("kind: Service\nspec: {{ports: [1]}}\n---\nkind: Service\nspec: {{template: {{spec: {{{containers}}}}}}}"),
            "services:\n  a:\n    cpus: '0.25'\n".to_owned(),
            "x-d: &d {cpus: 0.25}\nservices:\n  a:\n    <<: *d\n".to_owned(),
            "services: {a: {deploy: {resources: {limits: {cpus: 0.25}}}}}".to_owned(),
            "kind: Pod\nspec: {initContainers: [{name: i, resources: {limits: {cpu: 9}}}, {name: a, restartPolicy: Always, resources: {limits: {cpu: .25}}}]}".to_owned(),
        ] {
            let manifest = read(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let [a] = manifest.containers() else { panic!("{text}: {manifest:?}") };
            assert_eq!((&*a.name, a.limit_milli), ("a", Some(250)), "{text}");
        }
    }

    #[test]
    fn every_limit_of_compose_is_used() {
        let compose = |keys: &str| format!("services:\n  web: {{ {keys} }}\n");
        for (keys, cpu_max) in [
            ("cpu_quota: 20000, cpu_period: 40000", "20000 40000"),
            ("cpus: 0.5, cpu_period: 40000", "20000 40000"),
            ("cpu_quota: -1", "max 100000"),
            ("cpu_quota: '30000', cpu_shares: 512", "30000 100000"),
        ] {
            let mut program = program("[group.\"/web\"]\n\"cpu.max\" = \"70000 100000\"");
            read(&compose(keys)).expect(keys).apply(&mut program).expect(keys);
            assert_eq!(program.groups[0].max.to_string(), cpu_max, "{keys}");
        }
        assert!(read(&compose("cpus: 1, cpu_quota: 1000")).expect_err("two limits").contains("are two limits"));
        assert!(read(&compose("cpu_period: soon")).expect_err("no number").contains("is not a whole number"));
    }

    #[test]
    fn mistakes_are_all_reported_with_their_lines() {
        let wrong = "kind: Pod\nspec:\n  containers:\n  - name: a\n    resources: { limits: { cpu: lots } }\n  - name: b\n    resources:\n      limits:\n      - cpu\n  - name: a\n    resources: { limits: { cpu: 1 }, requests: { cpu: 2 } }\n";
        assert_eq!(
            read(wrong).expect_err("three mistakes"),
            "pod.yaml:5: resources.limits.cpu: `lots` is not a number of CPUs; write 750m or 0.75\n\
             error: pod.yaml:9: expected a mapping with `cpu`, found a list\n\
             error: pod.yaml:10: two containers of one pod are named `a`"
        );
        for (text, part) in [
            ("", "has no containers"),
            ("kind: Pod\nspec: {containers: [{name: a}]}", "limits no CPU"),
            ("kind: Pod\nspec: {containers: [{name: a, resources: {limits: {cpu: 0}}}]}", "limits no CPU"),
            ("a: [", "this is not YAML"),
            ("a: 1\na: 2", "`a` is given twice"),
            ("- *x", "this is not YAML"),
            ("&x [*x]", "an alias stands inside"),
            ("kind: [Pod]", "`kind` is a list"),
            ("just text", "expected a mapping"),
        ] {
            let error = read(text).expect_err(text);
            assert!(error.contains(part), "{text:?}: {error}");
        }
        assert!(Manifest::text("x", &[0xff]).is_err());
    }

    #[test]
    fn absurd_files_end_soon() {
        let mut bomb = "a0: &a0 [x, x]\n".to_owned();
        (1..60).for_each(|at| bomb += &format!("a{at}: &a{at} [*a{0}, *a{0}, *a{0}]\n", at - 1));
        assert!(read(&(bomb + "kind: Pod\nspec: *a59\n")).is_err());
        for text in ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(100_000), "a: b\n".repeat(2)] {
            assert!(read(&text).is_err());
        }
        for end in 0..POD.len() {
            // Truncated anywhere: an error or less, and no panic.
            drop(read(&POD[..end]));
        }
    }
}
