//! Scenarios: TOML files with axes, measurements and sources. Each combination of the values on the
//! axes is a cell.

mod axes;
mod cell;
mod conclusion;
mod error;
mod length;
mod published;

use std::iter;

use schemars::JsonSchema;
use serde::Deserialize;

pub use axes::{
    Axes, CellKernel, CellPolicy, CellWorkload, GuestExercise, GuestType, Hypervisor, Load, Tuning,
};
pub use cell::Cell;
pub use conclusion::Conclusion;
pub use error::ScenarioError;
pub use length::Length;
pub use published::{PaperFigure, PublishedTable, Statistic};

/// How each cell is measured.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Measure {
    /// Program that measures. If a list is given, each program measures each cell.
    #[serde(deserialize_with = "axes::one_or_more")]
    #[schemars(with = "axes::OneOrMore<CellWorkload>")]
    pub workload: Vec<CellWorkload>,
    /// Duration of a repetition.
    pub duration: Length,
    /// Number of repetitions.
    #[serde(default = "once")]
    pub repeat: u32,
}

fn once() -> u32 {
    1
}

/// An experiment of a paper.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// Purpose of the experiment, in one line.
    pub title: String,
    /// Paper that describes the experiment, with its tables and figures.
    pub source: String,
    /// Axes of the experiment. Each combination of their values is a cell.
    pub axes: Axes,
    /// How each cell is measured.
    pub measure: Measure,
    /// Figures that the paper published.
    #[serde(default)]
    pub published: Vec<PublishedTable>,
    /// Conclusions of the paper.
    #[serde(default)]
    pub conclusion: Vec<Conclusion>,
}

/// Returns the JSON schema of a scenario file.
///
/// # Errors
/// If the schema cannot be written as JSON.
pub fn schema() -> Result<String, serde_json::Error> {
    let schema = schemars::schema_for!(Scenario);
    Ok(serde_json::to_string_pretty(&schema)? + "\n")
}

/// Returns the text of a scenario with this number of repetitions.
///
/// # Errors
/// If the text is not a valid scenario.
pub fn repeated(text: &str, repeat: u32) -> Result<String, ScenarioError> {
    let mut table: toml::Table =
        toml::from_str(text).map_err(|error| ScenarioError::of(text, &error))?;
    if let Some(toml::Value::Table(measure)) = table.get_mut("measure") {
        measure.insert("repeat".to_owned(), i64::from(repeat).into());
    }
    Ok(table.to_string())
}

impl Scenario {
    /// Parses the text of a scenario file.
    ///
    /// # Errors
    /// If the text is not a valid scenario. The message has the line and the allowed values.
    pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario =
            toml::from_str(text).map_err(|error| ScenarioError::of(text, &error))?;
        if scenario.measure.repeat == 0 {
            return Err(ScenarioError::NoRepetition);
        }
        if scenario.measure.duration.ns() == 0 {
            return Err(ScenarioError::NoDuration);
        }
        let names: Vec<String> = scenario.cells().iter().map(Cell::name).collect();
        if names.is_empty() {
            return Err(ScenarioError::NoCell);
        }
        let mut conclusions = scenario.conclusion.iter();
        if let Some(it) = conclusions.find(|it| it.at_most.is_none() && it.at_least.is_none()) {
            return Err(ScenarioError::NoBound(it.text.clone()));
        }
        let mut conclusions = scenario.conclusion.iter();
        if let Some(it) = conclusions.find(|it| it.by.is_none() && !it.statistic.is_part()) {
            return Err(ScenarioError::NoOther(it.text.clone()));
        }
        for published in &scenario.published {
            let is_part = published.statistic.is_part();
            let mut figures = published.cells.values();
            if let Some(wrong) = figures.find(|it| it.is_part() != is_part) {
                return Err(ScenarioError::WrongFigure {
                    figure: wrong.to_string(),
                    statistic: published.statistic.to_string(),
                });
            }
        }
        let published = scenario.published.iter().flat_map(|it| it.cells.keys());
        let conclusions = scenario.conclusion.iter();
        let conclusions = conclusions.flat_map(|it| iter::once(&it.of).chain(&it.by));
        let unknown = published
            .chain(conclusions)
            .find(|cell| !names.contains(cell));
        if let Some(cell) = unknown {
            return Err(ScenarioError::UnknownCell {
                cell: cell.clone(),
                known: names.join(", "),
            });
        }
        Ok(scenario)
    }

    /// Returns all possible combinations of the axes' values, in the order of the file. An axis
    /// that does not apply to a hypervisor, such as the guest type, adds no cells for it.
    pub fn cells(&self) -> Vec<Cell> {
        Cell::all(&self.axes, &self.measure.workload)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    const SCENARIO: &str = r#"
title = "Without load"
source = "Table 2"

[axes]
hypervisor = ["kvm", "xen"]
guest-type = ["pv", "pvh"]
host-kernel = ["ordinary", "rt"]
guest-kernel = "rt"
period = "50us"

[measure]
workload = "timerlat"
duration = "2s"
"#;

    fn refused(text: &str) -> String {
        Scenario::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn each_combination_is_a_cell_and_a_guest_type_is_one_of_xen() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let names: Vec<String> = scenario.cells().iter().map(Cell::name).collect();
        assert_eq!(
            names,
            [
                "kvm-ordinary",
                "kvm-rt",
                "xen-pv-ordinary",
                "xen-pv-rt",
                "xen-pvh-ordinary",
                "xen-pvh-rt"
            ]
        );
    }

    #[test]
    fn one_value_is_a_list_of_one() {
        let scenario = Scenario::parse(SCENARIO).unwrap();
        assert_eq!(scenario.axes.guest_kernel[..], [CellKernel::Rt]);
        assert_eq!(scenario.axes.load[..], [Load::Idle], "as nothing is said");
        assert_eq!(scenario.measure.duration.ns(), 2_000_000_000);
        assert_eq!(scenario.measure.repeat, 1);
    }

    #[test]
    fn by_what_a_cell_is_measured_is_part_of_its_name_where_there_are_two() {
        let two = SCENARIO.replace("\"timerlat\"", "[\"cyclictest\", \"timerlat\"]");
        let cells = Scenario::parse(&two).unwrap().cells();
        let first: Vec<(String, CellWorkload)> = cells[..2]
            .iter()
            .map(|it| (it.name(), it.workload))
            .collect();
        assert_eq!(first[0].0, "kvm-ordinary-cyclictest");
        assert_eq!(first[1].0, "kvm-ordinary-timerlat");
        assert_eq!(
            [first[0].1, first[1].1],
            [CellWorkload::Cyclictest, CellWorkload::Timerlat]
        );
    }

    #[test]
    fn what_is_wrong_is_reported_with_its_line() {
        let wrong = SCENARIO.replace("\"xen\"]", "\"zen\"]");
        let said = refused(&wrong);
        assert!(said.starts_with("line 6: "), "{said}");
        assert!(said.contains("`xen`"), "what may stand there: {said}");

        let said = refused(&SCENARIO.replace("50us", "50"));
        assert!(said.starts_with("line 10: "), "{said}");
        assert!(said.contains("50us"), "an example: {said}");

        let said = refused(&SCENARIO.replace("duration", "length"));
        assert!(said.contains("length"), "{said}");
    }

    #[test]
    fn what_a_paper_measured_is_of_a_cell() {
        let table = |cell: &str| {
            format!(
                "{SCENARIO}[[published]]\nsource = \"Table 2\"\nmachine = \"i7\"\n\
                 cells = {{ {cell} = \"28us\" }}\n"
            )
        };
        let scenario = Scenario::parse(&table("kvm-rt")).unwrap();
        let figure = scenario.published[0].cells["kvm-rt"];
        assert_eq!(figure.to_string(), "28us");
        let said = refused(&table("kvm-pv-rt"));
        assert!(
            said.contains("kvm-pv-rt") && said.contains("xen-pv-rt"),
            "{said}"
        );
    }

    #[test]
    fn a_part_of_a_whole_is_published_in_per_cent_and_a_length_is_not() {
        let table = |statistic: &str, figure: &str| {
            format!(
                "{SCENARIO}[[published]]\nsource = \"Figure 8\"\nmachine = \"Ryzen\"\n\
                 statistic = \"{statistic}\"\ncells = {{ kvm-rt = \"{figure}\" }}\n"
            )
        };
        assert!(Scenario::parse(&table("noise", "0.5484%")).is_ok());
        let said = refused(&table("worst", "0.5484%"));
        assert!(said.contains("0.5484%") && said.contains("worst"), "{said}");
        let said = refused(&table("noise", "28us"));
        assert!(said.contains("ends with %"), "{said}");
    }

    #[test]
    fn a_conclusion_that_nothing_could_disagree_with_is_refused() {
        let conclusion = "[[conclusion]]\ntext = \"so it is\"\nsource = \"\"\nstatistic = \"worst\"\n\
                          of = \"kvm-rt\"\nby = \"kvm-ordinary\"\n";
        let said = refused(&format!("{SCENARIO}{conclusion}"));
        assert!(
            said.contains("so it is") && said.contains("at-most"),
            "{said}"
        );
        assert!(Scenario::parse(&format!("{SCENARIO}{conclusion}at-most = 1\n")).is_ok());
    }

    #[test]
    fn a_part_may_be_judged_by_itself_and_a_length_may_not() {
        let conclusion = |statistic: &str| {
            format!(
                "{SCENARIO}[[conclusion]]\ntext = \"so it is\"\nsource = \"\"\nof = \"kvm-rt\"\n\
                 at-most = 0.5\nstatistic = \"{statistic}\"\n"
            )
        };
        assert!(Scenario::parse(&conclusion("steal")).is_ok());
        let said = refused(&conclusion("worst"));
        assert!(said.contains("so it is") && said.contains("`by`"), "{said}");
    }

    #[test]
    fn what_only_some_hypervisors_have_is_varied_there_alone() {
        let axes = "timer-slop = [\"100us\", \"1us\"]\nexercise = [\"cpuid\", \"io\"]\n";
        let text = SCENARIO.replace("[\"kvm\", \"xen\"]", "[\"dom0\", \"microvm\", \"xen\"]");
        let text = text.replace("[\"pv\", \"pvh\"]", "\"pv\"");
        let text = text.replace("period =", &format!("{axes}period ="));
        let scenario = Scenario::parse(&text.replace("[\"ordinary\", \"rt\"]", "\"rt\"")).unwrap();
        let names: Vec<String> = scenario.cells().iter().map(Cell::name).collect();
        let all = [
            "dom0",
            "microvm-cpuid",
            "microvm-io",
            "xen-100us",
            "xen-1us",
        ];
        assert_eq!(names, all);
    }

    #[test]
    fn what_measures_nothing_is_refused() {
        let nothing = SCENARIO.replace("\"2s\"", "\"0s\"");
        assert_eq!(refused(&nothing), ScenarioError::NoDuration.to_string());
        let never = format!("{SCENARIO}repeat = 0\n");
        assert_eq!(refused(&never), ScenarioError::NoRepetition.to_string());
        let empty = SCENARIO.replace("[\"kvm\", \"xen\"]", "[]");
        assert_eq!(refused(&empty), ScenarioError::NoCell.to_string());
    }
}
