//! Files of a machine: of the current machine, of an invented tree of files, or of a recording.

use std::cell::RefCell;
use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use vmnoise_events::Settings;

use crate::{Host, cpu_list};

/// Largest number of bytes of paths and texts that are kept: about ten times as many as a large
/// machine has.
const ROOM: usize = 1 << 20;
/// File that lists the online CPUs.
const ONLINE: &str = "sys/devices/system/cpu/online";
/// File that lists the control groups of this process.
const OWN_CGROUP: &str = "proc/self/cgroup";
/// File with the features of the CPUs.
const CPUINFO: &str = "proc/cpuinfo";
/// Number of bytes of [`CPUINFO`] that contain the features of the first CPU.
const CPUINFO_BYTES: u64 = 4096;
/// Placeholders in a pattern.
const MARKS: [&str; 7] = [
    "{cpu}",
    "{vm}",
    "{vm_cgroup}",
    "{vm_cpu_cgroup}",
    "{own_cgroup}",
    "{own_cpu_cgroup}",
    "*",
];

/// Result of reading a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileText {
    /// Text of the file, without white space at both ends.
    Text(String),
    /// The file does not exist: the kernel lacks this setting.
    Absent,
    /// The file exists but this process is not allowed to read it, or the file is missing in the
    /// recording.
    Denied,
}

/// A file that matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatchedFile {
    /// Path without the leading `/`.
    pub path: String,
    /// Text that replaced `*`, or name of the CPU's folder. Empty if the pattern has neither.
    pub instance: String,
}

/// Placeholder in a pattern that stands for VMs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmPlaceholder {
    /// `{vm}`: the process of each VM.
    Process,
    /// `{vm_cgroup}`: the control groups of the VMs' threads.
    Cgroup,
    /// `{vm_cpu_cgroup}`: the same control groups in the hierarchy of version 1 for CPUs.
    CpuCgroup,
}

/// Files of a machine, wherever they come from.
#[derive(Debug, Clone)]
pub struct MachineFiles(FileSource);

#[derive(Debug, Clone)]
enum FileSource {
    /// Files of this machine.
    Tree(Host),
    /// Files of this machine. Every file that is read is kept for a recording.
    Kept(Host, RefCell<KeptFiles>),
    /// Files of a recording. If the recording is from the current machine, missing files are read
    /// there.
    Recorded(Arc<Settings>, Option<Host>),
}

/// Files of a machine that are kept for a recording.
#[derive(Debug, Clone)]
struct KeptFiles {
    settings: Settings,
    /// Number of bytes that can still be kept.
    room: usize,
    /// Instant after which no file is read.
    until: Instant,
}

impl MachineFiles {
    /// Returns the present files of a machine.
    pub fn of(host: Host) -> MachineFiles {
        MachineFiles(FileSource::Tree(host))
    }

    /// Returns the files of a recorded machine. Files that the recording lacks are read from
    /// `here`, if it is the same machine.
    pub fn recorded(settings: Settings, here: Option<Host>) -> MachineFiles {
        MachineFiles(FileSource::Recorded(Arc::new(settings), here))
    }

    /// Returns the present files of a machine. Every file that is read before the instant `until`
    /// is kept.
    pub(super) fn kept(host: Host, until: Instant) -> MachineFiles {
        let kept = KeptFiles {
            settings: Settings::default(),
            room: ROOM,
            until,
        };
        MachineFiles(FileSource::Kept(host, RefCell::new(kept)))
    }

    /// Returns all kept files; empty if no files are kept.
    pub(super) fn into_settings(self) -> Settings {
        match self.0 {
            FileSource::Kept(_, kept) => kept.into_inner().settings,
            FileSource::Tree(_) | FileSource::Recorded(..) => Settings::default(),
        }
    }

    /// Returns the machine itself, if its present state can be read.
    pub fn here(&self) -> Option<&Host> {
        match &self.0 {
            FileSource::Tree(host) | FileSource::Kept(host, _) => Some(host),
            FileSource::Recorded(_, here) => here.as_ref(),
        }
    }

    /// Returns the online CPUs, ascending.
    ///
    /// # Errors
    /// If the list of online CPUs cannot be read.
    pub fn online_cpus(&self) -> io::Result<Vec<u32>> {
        let FileText::Text(online) = self.read(ONLINE) else {
            return Err(io::Error::other(format!("/{ONLINE} has no list of CPUs")));
        };
        cpu_list::parse(&online).map_err(io::Error::other)
    }

    /// Reads a file.
    pub fn read(&self, path: &str) -> FileText {
        let most = match path {
            CPUINFO => CPUINFO_BYTES,
            _ => u64::MAX,
        };
        self.text_of(path, |root| {
            let mut text = String::new();
            let file = fs::File::open(root.join(path))?;
            file.take(most).read_to_string(&mut text)?;
            Ok(text.trim().to_owned())
        })
    }

    /// Returns the names of the folders in `folder`, whose path must end with `/`. `None` if they
    /// could not be read.
    pub fn folders(&self, folder: &str) -> Option<Vec<String>> {
        let names = self.text_of(folder, |root| {
            let entries = fs::read_dir(root.join(folder))?.flatten();
            let folders = entries.filter(|entry| entry.path().is_dir());
            let names = folders.filter_map(|entry| entry.file_name().into_string().ok());
            // A name may contain any character except `/`. No setting has a name with a line break.
            let names = names.filter(|name| !name.contains('\n'));
            Ok(names.collect::<Vec<_>>().join("\n"))
        });
        match names {
            FileText::Text(names) => Some(names.lines().map(str::to_owned).collect()),
            FileText::Absent => Some(Vec::new()),
            FileText::Denied => None,
        }
    }

    /// Reads a file or folder from the source. `read` does this below the root of a machine.
    fn text_of(&self, path: &str, read: impl FnOnce(&Path) -> io::Result<String>) -> FileText {
        match &self.0 {
            FileSource::Tree(host) => FileText::of(read(&host.root)),
            FileSource::Kept(host, kept) => {
                let mut kept = kept.borrow_mut();
                if Instant::now() >= kept.until {
                    return FileText::Denied;
                }
                let text = FileText::of(read(&host.root));
                kept.keep(path, &text);
                text
            }
            FileSource::Recorded(settings, here) => match (settings.get(path), here) {
                (Some(Some(text)), _) => FileText::Text(text.to_owned()),
                (Some(None), _) => FileText::Absent,
                (None, Some(host)) => FileText::of(read(&host.root)),
                (None, None) => FileText::Denied,
            },
        }
    }

    /// Returns all existing files that match a pattern, sorted by number or name. A pattern is a
    /// path without the leading `/`, and may contain placeholders:
    ///
    /// - `*` stands for any name. Each matching file is a separate *instance*.
    /// - `{cpu}` stands for each of `cpus`. The word before or after it is part of the instance.
    /// - `{own_cgroup}` stands for the control group of this process, and each of its parent
    ///   groups. `{own_cpu_cgroup}` stands for the same groups in the hierarchy of version 1 for
    ///   CPUs.
    /// - A [`VmPlaceholder`] stands for each word that `of_vms` returns.
    ///
    /// A file or folder that has to be read for this, and cannot be read, is returned instead of
    /// the matching files.
    pub fn matching(
        &self,
        pattern: &str,
        cpus: &[u32],
        of_vms: &dyn Fn(VmPlaceholder) -> Vec<String>,
    ) -> Vec<MatchedFile> {
        let marks = MARKS.iter();
        let first = marks.filter_map(|mark| Some((pattern.find(mark)?, *mark)));
        let Some((place, mark)) = first.min() else {
            return vec![MatchedFile::at(pattern.to_owned())];
        };
        let (before, behind) = (&pattern[..place], &pattern[place + mark.len()..]);
        let words = match self.words(mark, before, cpus, of_vms) {
            Ok(words) => words,
            Err(unreadable) => return vec![MatchedFile::at(unreadable)],
        };
        let of_word = |(word, instance): (String, String)| {
            let files = self.matching(&format!("{before}{word}{behind}"), cpus, of_vms);
            files.into_iter().map(move |file| file.under(&instance))
        };
        words.into_iter().flat_map(of_word).collect()
    }

    /// Returns the words that replace a placeholder, each with the name of the instance. The error
    /// is the file or folder that cannot be read.
    fn words(
        &self,
        mark: &str,
        before: &str,
        cpus: &[u32],
        of_vms: &dyn Fn(VmPlaceholder) -> Vec<String>,
    ) -> Result<Vec<(String, String)>, String> {
        let words = match mark {
            "{cpu}" => {
                let of_cpu = |cpu: &u32| (cpu.to_string(), format!("cpu{cpu}"));
                return Ok(cpus.iter().map(of_cpu).collect());
            }
            "{vm}" => of_vms(VmPlaceholder::Process),
            "{vm_cgroup}" => of_vms(VmPlaceholder::Cgroup),
            "{vm_cpu_cgroup}" => of_vms(VmPlaceholder::CpuCgroup),
            "{own_cgroup}" => self.own_cgroups(false)?,
            "{own_cpu_cgroup}" => self.own_cgroups(true)?,
            _ => self.names_after(before)?,
        };
        let same = |word: String| (word.clone(), word);
        Ok(words.into_iter().map(same).collect())
    }

    fn own_cgroups(&self, is_first: bool) -> Result<Vec<String>, String> {
        match self.read(OWN_CGROUP) {
            FileText::Denied => Err(OWN_CGROUP.to_owned()),
            FileText::Text(_) | FileText::Absent => Ok(self.cgroups_of(OWN_CGROUP, is_first)),
        }
    }

    /// Returns the rest of the name of each folder whose path begins with `before`, sorted by
    /// number or name.
    fn names_after(&self, before: &str) -> Result<Vec<String>, String> {
        let (folder, begin) = before.rsplit_once('/').unwrap_or(("", before));
        let folder = format!("{folder}/");
        let Some(folders) = self.folders(&folder) else {
            return Err(folder);
        };
        let names = folders.iter().filter_map(|name| name.strip_prefix(begin));
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_by_key(|name| (name.parse::<u32>().unwrap_or(u32::MAX), name.clone()));
        Ok(names)
    }

    /// Returns the control group in a file of /proc, and all its parent groups. The root has no
    /// files with limits, except the root of a container's namespace. `is_first` selects the
    /// hierarchy of version 1 for CPUs.
    pub fn cgroups_of(&self, file: &str, is_first: bool) -> Vec<String> {
        let FileText::Text(text) = self.read(file) else {
            return Vec::new();
        };
        let mut lines = text.lines().filter_map(|line| {
            let (_, line) = line.split_once(':')?;
            line.split_once(':')
        });
        let of_cpus = |of: &str| match is_first {
            true => of.split(',').any(|it| it == "cpu"),
            false => of.is_empty(),
        };
        let Some((_, own)) = lines.find(|(of, _)| of_cpus(of)) else {
            return Vec::new();
        };
        let ends = own.char_indices().filter(|(at, it)| *at > 0 && *it == '/');
        let above = ends.map(|(at, _)| own[..at].to_owned());
        let mut cgroups: Vec<String> = [String::new()].into_iter().chain(above).collect();
        cgroups.extend((own.len() > 1).then(|| own.to_owned()));
        cgroups
    }
}

impl FileText {
    fn of(read: io::Result<String>) -> FileText {
        match read {
            Ok(text) => FileText::Text(text),
            Err(error) => match error.kind() {
                // A file without valid text counts as not readable.
                ErrorKind::PermissionDenied | ErrorKind::InvalidData => FileText::Denied,
                _ => FileText::Absent,
            },
        }
    }
}

impl MatchedFile {
    fn at(path: String) -> MatchedFile {
        let instance = String::new();
        MatchedFile { path, instance }
    }

    /// Returns the file with the name of an outer instance before its own.
    fn under(self, outer: &str) -> MatchedFile {
        let instance = match self.instance.is_empty() {
            true => outer.to_owned(),
            false => format!("{outer}/{}", self.instance),
        };
        MatchedFile { instance, ..self }
    }
}

impl KeptFiles {
    /// Keeps a file for a recording, if enough bytes are left.
    fn keep(&mut self, path: &str, text: &FileText) {
        let text = match text {
            FileText::Text(text) => Some(&**text),
            FileText::Absent => None,
            FileText::Denied => return,
        };
        let bytes = path.len() + text.map_or(0, str::len);
        if let Some(room) = self.room.checked_sub(bytes)
            && self.settings.insert(path, text).is_ok()
        {
            self.room = room;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    fn instances(files: &MachineFiles, pattern: &str) -> Vec<String> {
        let of_vms = |of| match of {
            VmPlaceholder::Process => vec!["71".to_owned(), "80".to_owned()],
            VmPlaceholder::Cgroup | VmPlaceholder::CpuCgroup => vec!["/web".to_owned()],
        };
        let files = files.matching(pattern, &[1, 3], &of_vms).into_iter();
        let shown = files.map(|file| format!("{}: {}", file.instance, file.path));
        shown.collect()
    }

    #[test]
    fn each_placeholder_stands_for_its_own_words() {
        let (_root, host) = tree(&[
            ("proc/irq/9/x", ""),
            ("proc/irq/24/x", ""),
            ("sys/cpu1/state0/x", ""),
            ("sys/cpu1/state2/x", ""),
            ("proc/self/cgroup", "3:cpu,cpuacct:/a\n0::/b/c\n"),
        ]);
        let files = MachineFiles::of(host);
        let assert_matches = |pattern: &str, expected: &[&str]| {
            assert_eq!(instances(&files, pattern), expected, "{pattern}");
        };
        assert_matches("proc/cmdline", &[": proc/cmdline"]);
        assert_matches("proc/irq/*/x", &["9: proc/irq/9/x", "24: proc/irq/24/x"]);
        let states = ["cpu1/0: sys/cpu1/state0/x", "cpu1/2: sys/cpu1/state2/x"];
        assert_matches("sys/cpu{cpu}/state*/x", &states);
        let groups = [": a/x", "/b: a/b/x", "/b/c: a/b/c/x"];
        assert_matches("a{own_cgroup}/x", &groups);
        assert_matches("a{own_cpu_cgroup}/x", &[": a/x", "/a: a/a/x"]);
        assert_matches("{vm}/x", &["71: 71/x", "80: 80/x"]);
        assert_matches("a{vm_cgroup}", &["/web: a/web"]);
    }

    #[test]
    fn what_a_recording_lacks_is_read_only_on_the_same_machine() {
        let (_root, host) = tree(&[("a", "now\n"), ("b", "now\n")]);
        let mut settings = Settings::default();
        settings.insert("a", Some("then")).unwrap();
        settings.insert("c", None).unwrap();
        let text = |text: &str| FileText::Text(text.to_owned());
        let read = |here| {
            let files = MachineFiles::recorded(settings.clone(), here);
            ["a", "b", "c", "d"].map(|path| files.read(path))
        };
        let (absent, denied) = (FileText::Absent, FileText::Denied);
        let there = [text("then"), denied.clone(), absent.clone(), denied];
        assert_eq!(read(None), there);
        let here = [text("then"), text("now"), absent.clone(), absent];
        assert_eq!(read(Some(host)), here);
    }
}
