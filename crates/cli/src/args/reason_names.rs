//! Checks typed exit reasons against the reasons that this machine's KVM can report.

use vmnoise_events::Isa;
use vmnoise_host::KVM_PVM;

/// Largest number of names that an error suggests.
const OFFERED: usize = 5;
/// Least similarity (Jaro-Winkler) of a suggested name.
const LIKE: f64 = 0.75;

/// Refuses a reason that no exit has on this machine, because the run would count nothing.
///
/// # Errors
/// A sentence with similar names.
pub fn check(names: &[String], kvm_module: Option<&str>) -> Result<(), String> {
    let known: Vec<&str> = isas(kvm_module)
        .iter()
        .flat_map(|isa| isa.reason_names())
        .collect();
    let is_known = |name: &String| {
        // Results use `unknown_0x…` for a reason without a name, and `others` for reasons beyond
        // the table.
        let lower = name.to_ascii_lowercase();
        let nameless = lower.starts_with("unknown_0x") || lower == "others";
        nameless || known.iter().any(|known| known.eq_ignore_ascii_case(name))
    };
    let Some(wrong) = names.iter().find(|name| !is_known(name)) else {
        return Ok(());
    };
    let with = kvm_module.map_or_else(String::new, |module| format!(" with {module}"));
    let near = near(wrong, &known);
    let remedy = match near.is_empty() {
        true => "`vmnoise exits` without --reason prints those that occur".to_owned(),
        false => format!("similar names: {}", near.join(", ")),
    };
    Err(format!("no exit has the reason `{wrong}`{with}; {remedy}"))
}

fn isas(kvm_module: Option<&str>) -> &'static [Isa] {
    match kvm_module {
        Some("kvm_intel") => &[Isa::Vmx],
        Some("kvm_amd") => &[Isa::Svm],
        Some(KVM_PVM) => &[Isa::KvmRun],
        _ => &Isa::ALL,
    }
}

/// Returns similar names, the most similar first. A name that contains the word, or is contained
/// in it, is similar.
fn near<'a>(word: &str, known: &[&'a str]) -> Vec<&'a str> {
    let word = word.to_ascii_lowercase();
    let likeness = |name: &str| {
        let name = name.to_ascii_lowercase();
        let holds = !word.is_empty() && (name.contains(&word) || word.contains(&name));
        strsim::jaro_winkler(&word, &name) + if holds { 1.0 } else { 0.0 }
    };
    let mut near: Vec<(f64, &str)> = known.iter().map(|&name| (likeness(name), name)).collect();
    near.retain(|(likeness, _)| *likeness >= LIKE);
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    near.dedup();
    near.into_iter()
        .take(OFFERED)
        .map(|(_, name)| name)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(name: &str, module: Option<&str>) -> String {
        check(&[name.to_owned()], module).expect_err(name)
    }

    #[test]
    fn names_are_taken_in_any_case_and_without_a_name_by_code() {
        let names = ["CPUID", "npf", "unknown_0x999", "others"].map(String::from);
        assert_eq!(check(&names, Some("kvm_amd")), Ok(()));
        assert_eq!(check(&names, None), Ok(()));
        assert_eq!(check(&[], Some("kvm_intel")), Ok(()));
    }

    #[test]
    fn a_wrong_name_is_refused_with_those_near_it() {
        let text = refusal("io", Some("kvm_intel"));
        assert!(text.contains("with kvm_intel; similar names:"), "{text}");
        assert!(text.contains("IO_INSTRUCTION"), "{text}");
        let text = refusal("cupid", Some("kvm_amd"));
        assert!(text.contains("similar names: cpuid"), "{text}");
        let text = refusal("zzzzzzzz", Some("kvm_pvm"));
        assert!(
            text.ends_with("without --reason prints those that occur"),
            "{text}"
        );
    }
}
