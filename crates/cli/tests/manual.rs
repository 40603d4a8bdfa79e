//! Tests of the manual and the shells' completions with the programs that read them.

use std::path::Path;
use std::process::{Command, Output};

fn output(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn vmnoise(words: &[&str]) -> String {
    let binary = env!("CARGO_BIN_EXE_vmnoise");
    String::from_utf8(output(Command::new(binary).args(words)).stdout).unwrap()
}

/// Returns the subcommands and options of a command, according to its help.
fn reported_by_help(words: &[&str]) -> (Vec<String>, Vec<String>) {
    let help = vmnoise(&[words, &["--help"]].concat());
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let first = |line: &str| Some(line.strip_prefix("  ")?.split(' ').next()?.to_owned());
    let commands = commands
        .filter_map(first)
        .filter(|name| !name.is_empty() && name != "help");
    let options = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"));
    let name = |word: &str| {
        let end = |it: char| !it.is_ascii_lowercase() && it != '-';
        word.split(end).next().unwrap().to_owned()
    };
    (commands.collect(), options.map(name).collect())
}

/// Checks that each command has a page that groff accepts without a warning, and that the page
/// names each option.
fn assert_has_pages(folder: &Path, words: &[&str]) {
    let name = [&["vmnoise"], words].concat().join("-");
    let page = folder.join(format!("{name}.1"));
    let shown = output(
        Command::new("groff")
            .args(["-man", "-ww", "-Tascii"])
            .arg(&page),
    );
    assert_eq!(String::from_utf8_lossy(&shown.stderr), "", "{name}");
    // In the page's source, since groff adds emphasis and line breaks.
    let source = std::fs::read_to_string(&page).unwrap().replace('\\', "");
    let (commands, options) = reported_by_help(words);
    for option in &options {
        assert!(source.contains(option), "{name} says nothing of {option}");
    }
    assert!(!options.is_empty(), "{name}");
    if words.last() == Some(&"top") {
        assert!(source.contains("pause the display"), "{name}: the keys");
    }
    for command in &commands {
        assert_has_pages(folder, &[words, &[command]].concat());
    }
    assert!(!words.is_empty() || commands.len() > 8, "{commands:?}");
}

#[test]
fn each_command_has_a_page_of_the_manual_that_groff_takes_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    vmnoise(&["man", pages.to_str().unwrap()]);
    assert_has_pages(&pages, &[]);
}

#[test]
fn a_manual_that_cannot_be_written_says_where() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let folder = file.path().join("man1");
    let binary = env!("CARGO_BIN_EXE_vmnoise");
    let refused = Command::new(binary)
        .arg("man")
        .arg(&folder)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains(folder.to_str().unwrap()), "{said}");
}

/// Returns the completions that this shell offers after sourcing its script.
fn offered(shell: &str, script: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completions");
    std::fs::write(&file, vmnoise(&["completions", shell])).unwrap();
    let mut command = Command::new(shell);
    let reported = output(command.args(["-c", script]).env("COMPLETIONS", &file));
    assert_eq!(String::from_utf8_lossy(&reported.stderr), "", "{shell}");
    String::from_utf8(reported.stdout).unwrap()
}

#[test]
fn bash_completes_commands_and_values() {
    let asked = |words: &str, at: usize| {
        offered(
            "bash",
            &format!(
                "source $COMPLETIONS; COMP_WORDS=({words}); COMP_CWORD={at}; \
                 _vmnoise vmnoise \"${{COMP_WORDS[{at}]}}\" \"${{COMP_WORDS[{at}-1]}}\"; \
                 echo ${{COMPREPLY[@]}}"
            ),
        )
    };
    assert_eq!(asked("vmnoise timer", 1).trim(), "timerlat");
    assert_eq!(asked("vmnoise explain --format ''", 3).trim(), "text json");
}

#[test]
fn fish_completes_commands() {
    let offered = offered("fish", "source $COMPLETIONS; complete -C 'vmnoise timer'");
    assert!(offered.starts_with("timerlat\t"), "{offered}");
}

#[test]
fn zsh_takes_its_script() {
    offered(
        "zsh",
        "autoload -U compinit; compinit -u -D; source $COMPLETIONS; type _vmnoise",
    );
}
