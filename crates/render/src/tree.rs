//! Trees as text, with a line for each branch. The parts of a branch add up to the branch.

use vmnoise_console::units::{seconds, us};
use vmnoise_events::{Share, human};
use vmnoise_explain::{Detail, Most, NamedInterval, NamedPart, Phase, TreeBranch, What};
use vmnoise_views::trace_line::who;

use crate::exits::cpus;

/// Maximum number of branches on one level. The shortest branches above this number are merged.
pub const MOST: Most = Most {
    exits: 12,
    parts: 12,
    evenly: true,
};

/// Labels of a tree that shows both guest and host.
#[derive(Debug, Clone, Copy)]
pub struct Words {
    /// Suffix of names from the guest's kernel.
    pub side: &'static str,
    /// Event from which the start of each exit is counted.
    pub since: &'static str,
}

/// Renders a gap or wake-up with its budget. The parts add up to the time in the first line.
pub fn tree(of: &NamedInterval) -> String {
    let lost = match of.lost_activities() {
        0 => String::new(),
        lost => format!("; {lost} of its activities lost: the named times are lower bounds"),
    };
    let mut text = format!(
        " {:>12}  CPU {} at {}{lost}\n",
        human(of.dur_ns),
        of.cpu,
        seconds(of.at_ns)
    );
    let lines = of.parts.iter().map(|part| {
        let words = words_of(part, "");
        let words = match of.detail {
            Detail::Gap(_) => words,
            Detail::Wakeup(_) => format!("{:<10}  {words}", phase(part.phase)),
        };
        (part.ns, words)
    });
    self::lines(lines.collect(), &mut text);
    text
}

/// Renders one line for each part; these parts have no parts of their own.
pub fn lines(parts: Vec<(u64, String)>, out: &mut String) {
    for (index, (ns, words)) in parts.iter().enumerate() {
        let length = format!("{:>12}", human(*ns));
        line("", index + 1 == parts.len(), &length, words, out);
    }
}

/// Renders one line for each branch, with the time in µs, and below it the lines of its parts.
pub fn draw(branches: &[TreeBranch<'_>], words: Words, indent: &str, out: &mut String) {
    for (index, branch) in branches.iter().enumerate() {
        let is_last = index + 1 == branches.len();
        let length = format!("{:>10}", us(branch.ns));
        line(indent, is_last, &length, &words.of(&branch.what), out);
        let stem = if is_last { "    " } else { "|   " };
        draw(&branch.parts, words, &format!("{indent}{stem}"), out);
    }
}

fn line(indent: &str, is_last: bool, length: &str, words: &str, out: &mut String) {
    let fork = if is_last { "`-" } else { "|-" };
    let line = format!("   {indent}{fork} {length}  {words}");
    *out += line.trim_end();
    *out += "\n";
}

impl Words {
    fn of(&self, what: &What<'_>) -> String {
        match what {
            What::Phase(None) => "phases unknown".to_owned(),
            What::Phase(of) => phase(*of).to_owned(),
            What::Guest(part) => words_of(part, self.side),
            // The source of this part is the reason of the exit, which the exit's line already
            // shows.
            What::Host(part) if matches!(part.share, Share::Kvm | Share::Vmm) => {
                part.share.to_string()
            }
            What::Host(part) => words_of(part, ""),
            What::Exit(exit) => format!(
                "exit {}, {}, host {}, {} after {}",
                exit.reason,
                if exit.heavy { "HW" } else { "LW" },
                cpus(exit.exit_cpu, exit.entry_cpu),
                us(exit.after_ns),
                self.since,
            ),
            What::Rest(Share::Steal) => format!("{:<12} (steal clock alone)", Share::Steal),
            What::Rest(share) => format!("{share:<12} (residual)"),
            What::ShorterExits(count) => format!("in {count} shorter exits"),
            What::SmallerParts(count) => format!("in {count} smaller parts"),
        }
    }
}

fn words_of(part: &NamedPart, side: &str) -> String {
    format!("{:<12} {}{side}", part.share, who(part))
}

/// Returns the name of a phase; `-` if the phase is unknown.
pub fn phase(phase: Option<Phase>) -> &'static str {
    phase.map_or("-", Phase::name)
}
