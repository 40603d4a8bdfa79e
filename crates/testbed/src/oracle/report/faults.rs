//! Writes the table of the faults that were caused, and of the findings of `vmnoise audit`.

use crate::faults::{FaultVerdict, Proof};

/// Returns a table with one row per fault. The faults of one set are next to each other. The first
/// of them shows the total gain of the set's changes.
pub fn faults(found: &Proof) -> String {
    let clean = found.clean.iter();
    let clean: Vec<String> = clean
        .map(|(kernel, rules)| format!("{kernel}: {}", explained(rules)))
        .collect();
    let mut text = format!(
        "### Faults that `vmnoise audit` had to find\n\nLinux {}, two CPUs, virtual time, recordings of 1 s of the CPU \
         that should be quiet. The figures are milliseconds per second. *Promised* is the time that the change should \
         give back. This is all the time that the audit explains. For a heavier thread it is the part above its fair \
         share. For several faults at once it is their sum. {} machines had no fault: {}.\n\n\
         | fault | found by | place | injected | explained | noise before | noise after | promised | gained |\n\
         |---|---|---|---|---|---|---|---|---|\n",
        found.kernel_version,
        found.clean.len(),
        clean.join("; ")
    );
    for set in &found.judged {
        let promised_ns: u64 = set.iter().map(|it| it.promised_ns).sum();
        text.extend(set.iter().enumerate().map(|(number, it)| {
            // The gain belongs to all changes of the set, so only the set's first row shows it.
            let of_set = match number {
                0 => of_set(it, promised_ns),
                _ => [(); 4].map(|()| "\"".to_owned()),
            };
            format!(
                "| {} | `{}` | {} | {} | {} | {} |\n",
                it.what,
                it.rule,
                it.place.map_or("-".into(), |place| place.to_string()),
                ms(it.injected_ns),
                ms(it.explained_ns),
                of_set.join(" | ")
            )
        }));
    }
    text
}

fn of_set(it: &FaultVerdict, promised_ns: u64) -> [String; 4] {
    let gained = it.before_ns.cast_signed() - it.after_ns.cast_signed();
    [
        ms(it.before_ns),
        ms(it.after_ns),
        ms(promised_ns),
        format!("{:.3}", gained as f64 / 1e6),
    ]
}

fn explained(rules: &[String]) -> String {
    match rules.is_empty() {
        true => "nothing is explained".into(),
        false => rules.join(" "),
    }
}

fn ms(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}
