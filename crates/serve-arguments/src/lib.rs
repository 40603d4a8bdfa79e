//! The command lines of `vmnoise serve` and `vmnoise dump`. Two programs parse them: `vmnoise`, for
//! its help, manual and completions, and then `vmnoise-serve`, which `vmnoise` executes.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use jiff::SignedDuration;
use vmnoise_feed::FeedAddress;

/// Options of `vmnoise dump`.
#[derive(Debug, Args)]
pub struct DumpArguments {
    /// Save only the last TIME, such as 30s or 2m [default: all kept]
    #[arg(long, value_name = "TIME", value_parser = check_length)]
    pub last: Option<String>,
    /// Save only this VM, by its name in `vmnoise serve`
    #[arg(long, value_name = "NAME")]
    pub vm: Option<String>,
    /// Save all exits and interrupts of --vm from now on, for 1s to 60s
    ///
    /// `vmnoise serve` must run with `--exits-on request`.
    #[arg(long, value_name = "TIME", value_parser = check_stretch, requires = "vm", conflicts_with = "last")]
    pub exits: Option<String>,
    /// Write the recording to this file [default: a name with the time]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Ask the `vmnoise serve` at this URL
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9752")]
    pub from: String,
    /// Send the token in the first line of this file
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept an https server only if this certificate vouches for it (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
}

impl DumpArguments {
    /// Returns the command-line arguments that give these options.
    pub fn words(&self) -> Vec<OsString> {
        let DumpArguments {
            last,
            vm,
            exits,
            output,
            from,
            token_file,
            tls_ca,
        } = self;
        let file = |file: &Option<PathBuf>| file.clone().map(OsString::from);
        let word = |word: &Option<String>| word.clone().map(OsString::from);
        let options = [
            ("--last", word(last)),
            ("--vm", word(vm)),
            ("--exits", word(exits)),
            ("--output", file(output)),
            ("--from", Some(from.into())),
            ("--token-file", file(token_file)),
            ("--tls-ca", file(tls_ca)),
        ];
        let given = options.into_iter();
        let given = given.filter_map(|(option, value)| Some([option.into(), value?]));
        given.flatten().collect()
    }
}

/// Converts a length of time, such as `30s`, `2m` or `1h 5m`, to ns.
///
/// # Errors
/// If the text is not a valid length of time. The error is a sentence with the reason.
pub fn parse_length_ns(text: &str) -> Result<u64, String> {
    let length: SignedDuration = text
        .parse()
        .map_err(|_| format!("`{text}` is no length of time; write 30s or 2m, for example"))?;
    match u64::try_from(length.as_nanos()) {
        Ok(ns @ 1..) => Ok(ns),
        _ => Err(format!(
            "`{text}` is not above 0; write 30s or 2m, for example"
        )),
    }
}

/// Converts the time for which exits are recorded on request to ns. The time must be 1 s to 60 s.
///
/// # Errors
/// If the text is not a valid time. The error is a sentence with the reason.
pub fn parse_stretch_ns(text: &str) -> Result<u64, String> {
    match parse_length_ns(text)? {
        ns @ 1_000_000_000..=60_000_000_000 => Ok(ns),
        _ => Err(format!("`{text}` is not between 1s and 60s")),
    }
}

fn check_stretch(text: &str) -> Result<String, String> {
    parse_stretch_ns(text).map(|_| text.to_owned())
}

fn check_length(text: &str) -> Result<String, String> {
    parse_length_ns(text).map(|_| text.to_owned())
}

/// Options of `vmnoise serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Listen on this address; `/metrics` is for Prometheus
    ///
    /// Clients can read the names of VMs and of other tasks on this host. So any address except
    /// loopback needs --tls-cert, --tls-key and --token-file. If the service manager (systemd)
    /// passes a socket, vmnoise listens on that socket instead.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9752")]
    pub listen: SocketAddr,
    /// Reserve memory for this many vCPUs at a time
    #[arg(long, value_name = "COUNT", default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub vcpus: u32,
    /// Keep recent waits in this much memory, for `vmnoise dump`
    ///
    /// The size is in MiB. When the memory is full, the oldest waits are removed.
    #[arg(long, value_name = "MIB", default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(1..))]
    pub history: u16,
    /// Write a dump into this folder after a long wait, and at SIGUSR1
    ///
    /// A wait is long if a vCPU waited for a CPU for more than --dump-over.
    #[arg(long, value_name = "FOLDER")]
    pub dumps: Option<PathBuf>,
    /// Dump if a vCPU waits longer than this, at most once a minute
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = ["1ms", "5ms", "20ms", "100ms", "1s"])]
    pub dump_over: String,
    /// Dump also if a cause takes more than PERCENT of the last ten seconds
    ///
    /// The causes are: `quota=P`: a quota kept a VM's vCPUs from running. `steal=P`: the hypervisor
    /// below took a CPU of this machine. `pressure=P`: a task waited for a CPU (`some` in
    /// /proc/pressure/cpu). Separate several causes by commas.
    #[arg(
        long,
        value_name = "REASON=PERCENT",
        value_delimiter = ',',
        requires = "dumps"
    )]
    pub dump_on: Vec<DumpLimit>,
    /// Dump a VM when its guest asks through this socket
    ///
    /// The socket is unix:PATH (a serial port of QEMU), vsock:PATH or vsock:PATH:PORT (a vsock
    /// device; docs/feed.md). A guest asks by writing the line `dump`. One guest gets at most one
    /// dump a minute, and all guests together one in five seconds. May be given several times.
    #[arg(long, value_name = "SOCKET", requires = "dumps")]
    pub dumps_for: Vec<FeedAddress>,
    /// In a guest: ask the host for a dump if steal exceeds --dump-over
    ///
    /// vmnoise asks if the hypervisor took a CPU for longer than --dump-over, at most once a
    /// minute. It asks over this port, or by default over the port for the feed (docs/serve.md).
    /// vmnoise writes the name of the host's file to its log.
    #[arg(long, value_name = "PORT")]
    pub ask_host: Option<Option<PathBuf>>,
    /// Record single exits and interrupts of one VM on these occasions
    ///
    /// `canary`: for 10 s after a wait longer than --dump-over, in a second dump. `1/N`: for one
    /// second in N (2 to 3600), one VM after the other, in metrics only. `request`: when
    /// `vmnoise dump --exits` asks. Separate several occasions by commas.
    #[arg(
        long,
        value_name = "OCCASION",
        value_delimiter = ',',
        requires_if("canary", "dumps")
    )]
    pub exits_on: Vec<Occasion>,
    /// Export metrics for each vCPU, under label `vcpu`
    ///
    /// The first 333 vCPUs at a time have a label of their own; the other vCPUs of a VM have the
    /// label `other`. In a guest, the time taken from its own CPUs gets the label `cpu`.
    #[arg(long)]
    pub per_vcpu: bool,
    /// Limit the cost of vmnoise, in percent of the time of all CPUs
    ///
    /// The cost is the CPU time of vmnoise and of its programs in the kernel. If the cost is above
    /// the limit for five seconds, vmnoise records nothing for a minute and then tries again. Each
    /// further pause is twice as long, up to an hour.
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    pub cost_limit: f64,
    /// Serve https with this certificate (PEM, with its chain)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Use this private key (PEM) for --tls-cert
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Require the token in this file from clients
    ///
    /// Clients send the token as a bearer token, or as the password of any user.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Write hourly summaries (Parquet) into this folder or object store
    ///
    /// The place is a folder, or s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX
    /// (docs/data.md). Environment variables that begin with AWS_, GOOGLE_ or AZURE_ configure an
    /// object store. If the place accepts no files, the files of the last week wait in memory.
    #[arg(long, value_name = "DIR|URL")]
    pub summaries: Option<String>,
    /// Also send the metrics to this OpenTelemetry collector
    ///
    /// vmnoise sends the metrics once a minute to URL/v1/metrics, by OTLP over HTTP. Without a URL,
    /// the target is OTEL_EXPORTER_OTLP_ENDPOINT, or else http://localhost:4318. OpenTelemetry's
    /// variables for headers, certificate, timeout, interval and resource also apply
    /// (docs/serve.md).
    #[arg(long, value_name = "URL")]
    pub otlp: Option<Option<String>>,
}

/// Occasion on which vmnoise records each exit of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occasion {
    /// For ten seconds, after a wait longer than `--dump-over` in this VM.
    Canary,
    /// For one second in this many seconds, one VM after the other.
    OneIn(u32),
    /// When `vmnoise dump --exits` requests the recording.
    Request,
}

impl FromStr for Occasion {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Occasion, Self::Err> {
        let seconds = text.strip_prefix("1/").and_then(|text| text.parse().ok());
        match (text, seconds) {
            ("canary", _) => Ok(Occasion::Canary),
            ("request", _) => Ok(Occasion::Request),
            (_, Some(seconds @ 2..=3600)) => Ok(Occasion::OneIn(seconds)),
            _ => Err(
                "is neither `canary`, nor `request`, nor `1/N` with an N from 2 to 3600, as in 1/60",
            ),
        }
    }
}

impl fmt::Display for Occasion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Occasion::Canary => f.write_str("canary"),
            Occasion::OneIn(seconds) => write!(f, "1/{seconds}"),
            Occasion::Request => f.write_str("request"),
        }
    }
}

/// Cause of a dump (`--dump-on`). A long wait is another cause, without a variant here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// A quota kept the vCPUs of a VM from running.
    Quota,
    /// The hypervisor below this machine took a CPU of this machine.
    Steal,
    /// At least one task waited for a CPU.
    Pressure,
}

impl Sign {
    /// Returns the name of the cause on the command line and in the metrics.
    pub fn name(self) -> &'static str {
        match self {
            Sign::Quota => "quota",
            Sign::Steal => "steal",
            Sign::Pressure => "pressure",
        }
    }
}

/// Limit above which a cause leads to a dump.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DumpLimit {
    /// Cause of the dump.
    pub sign: Sign,
    /// Limit, in percent of a window of ten seconds.
    pub percent: f64,
}

impl FromStr for DumpLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<DumpLimit, String> {
        let (name, percent_text) = text.split_once('=').unwrap_or((text, ""));
        let signs = [Sign::Quota, Sign::Steal, Sign::Pressure];
        let sign = signs.into_iter().find(|sign| sign.name() == name);
        let sign = sign.ok_or("is neither quota=P, nor steal=P, nor pressure=P, as in quota=5")?;
        let percent = percent(percent_text).map_err(|why| format!("{name}=P: P {why}"))?;
        Ok(DumpLimit { sign, percent })
    }
}

impl fmt::Display for DumpLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.sign.name(), self.percent)
    }
}

impl ServeArguments {
    /// Returns the limit of `--dump-over`, in ns.
    pub fn dump_over_ns(&self) -> u64 {
        parse_length_ns(&self.dump_over).expect("each value there is can be read")
    }

    /// Returns the size of `--history`, in bytes.
    pub fn history_bytes(&self) -> u64 {
        u64::from(self.history) << 20
    }

    /// Returns the command-line arguments that give these options.
    pub fn words(&self) -> Vec<OsString> {
        let ServeArguments {
            listen,
            vcpus,
            history,
            dumps,
            dump_over,
            dump_on,
            dumps_for,
            ask_host,
            exits_on,
            per_vcpu,
            cost_limit,
            tls_cert,
            tls_key,
            token_file,
            summaries,
            otlp,
        } = self;
        let mut words = vec![
            "--listen".into(),
            listen.to_string().into(),
            "--vcpus".into(),
            vcpus.to_string().into(),
            "--history".into(),
            history.to_string().into(),
            "--dump-over".into(),
            dump_over.into(),
            "--cost-limit".into(),
            cost_limit.to_string().into(),
        ];
        for limit in dump_on {
            words.extend(["--dump-on".into(), limit.to_string().into()]);
        }
        for socket in dumps_for {
            words.extend(["--dumps-for".into(), socket.words()]);
        }
        if let Some(port) = ask_host {
            words.push("--ask-host".into());
            words.extend(port.as_ref().map(OsString::from));
        }
        for occasion in exits_on {
            words.extend(["--exits-on".into(), occasion.to_string().into()]);
        }
        if *per_vcpu {
            words.push("--per-vcpu".into());
        }
        let files = [
            ("--dumps", dumps),
            ("--tls-cert", tls_cert),
            ("--tls-key", tls_key),
            ("--token-file", token_file),
        ];
        for (option, file) in files {
            if let Some(file) = file {
                words.extend([option.into(), file.into()]);
            }
        }
        if let Some(summaries) = summaries {
            words.extend(["--summaries".into(), summaries.into()]);
        }
        if let Some(otlp) = otlp {
            words.push("--otlp".into());
            words.extend(otlp.as_ref().map(OsString::from));
        }
        words
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok();
    let is_some = |percent: &f64| *percent > 0.0 && *percent <= 100.0;
    let percent = percent.filter(is_some);
    percent.ok_or_else(|| "must be above 0, and at most 100".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: ServeArguments,
    }

    #[derive(Debug, Parser)]
    struct Dump {
        #[command(flatten)]
        arguments: DumpArguments,
    }

    #[test]
    fn words_of_a_dump_say_what_was_taken() {
        let line = "program --last 30s --vm web --output a.vmn --from http://h:1 --token-file t --tls-ca c";
        let line: Vec<&str> = line.split(' ').collect();
        let taken = Dump::parse_from(&line).arguments;
        assert_eq!(taken.words(), line[1..]);
        let line = "program --vm web --exits 10s --from http://h:1";
        let line: Vec<&str> = line.split(' ').collect();
        let taken = Dump::parse_from(&line).arguments;
        assert_eq!(taken.words(), line[1..]);
        for wrong in [
            &["--exits", "10s"][..],
            &["--vm", "web", "--exits", "61s"],
            &["--vm", "web", "--exits", "10ms"],
            &["--vm", "web", "--exits", "10s", "--last", "1m"],
        ] {
            let line = ["program"].iter().chain(wrong);
            assert!(Dump::try_parse_from(line).is_err(), "{wrong:?}");
        }
        let by_default = Dump::parse_from(["program"]).arguments.words();
        assert_eq!(by_default, ["--from", "http://127.0.0.1:9752"]);
    }

    #[test]
    fn lengths_are_as_people_write_them() {
        assert_eq!(parse_length_ns("30s"), Ok(30_000_000_000));
        assert_eq!(parse_length_ns("2m"), Ok(120_000_000_000));
        for wrong in ["", "30", "0s", "-3s", "soon"] {
            assert!(parse_length_ns(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_say_what_was_taken() {
        let line = "program --listen [::1]:9000 --vcpus 7 --history 8 --dump-over 5ms --cost-limit 0.5 --dump-on quota=5 --dump-on pressure=0.5 --dumps-for unix:/a --dumps-for vsock:/b:7 --ask-host p --exits-on canary --exits-on 1/60 --exits-on request --per-vcpu --dumps d --tls-cert c --tls-key k --token-file t --summaries s --otlp o";
        let line: Vec<&str> = line.split(' ').collect();
        let taken = Program::parse_from(&line).arguments;
        assert_eq!(taken.words(), line[1..]);
        let by_default = Program::parse_from(["program"]).arguments.words();
        assert_eq!(by_default[1], "127.0.0.1:9752");
        let with_comma = ["program", "--exits-on", "canary,1/60", "--dumps", "d"];
        let taken = Program::parse_from(with_comma).arguments.exits_on;
        assert_eq!(taken, [Occasion::Canary, Occasion::OneIn(60)]);
        for wrong in [
            &["--exits-on", "canary"][..],
            &["--exits-on", "1/1"],
            &["--exits-on", "often"],
            &["--dump-on", "quota=5"],
            &["--dump-on", "quota", "--dumps", "d"],
            &["--dump-on", "quota=0", "--dumps", "d"],
            &["--dump-on", "luck=5", "--dumps", "d"],
        ] {
            let line = ["program"].iter().chain(wrong);
            assert!(Program::try_parse_from(line).is_err(), "{wrong:?}");
        }
        let of_environment = ["program", "--otlp"];
        let of_environment = Program::parse_from(of_environment).arguments.words();
        assert_eq!(of_environment.last().unwrap(), "--otlp");
        for over in ["1ms", "5ms", "20ms", "100ms", "1s"] {
            let line = ["program", "--dump-over", over];
            assert!(Program::parse_from(line).arguments.dump_over_ns() >= 1_000_000);
        }
    }
}
