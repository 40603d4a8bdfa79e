//! A file of the table `hours`, read by a second Parquet reader.

use std::collections::BTreeMap;
use std::fs::File;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use vmnoise_export::{CulpritHour, HostHour, Readers, VmHour, WaitHour, place};

fn hour() -> HostHour {
    HostHour {
        begin: "2026-11-25T13:00:00.25Z".parse().unwrap(),
        end: "2026-11-25T14:00:00.5Z".parse().unwrap(),
        period_ns: 3_600_250_000_000,
        is_whole: true,
        tool_version: "1.2.3".to_owned(),
        missed_events: 4,
        vcpus_without_room: 5,
        self_cpu_ns: 6,
        probe_ns: 7,
        vms: vec![
            VmHour {
                vm: Some("web".to_owned()),
                vcpus: 2,
                running_ns: 10,
                halted_ns: 11,
                asleep_ns: 12,
                preempted_ns: 13,
                throttled_ns: 14,
                idle_ns: 15,
                unsure_ns: 16,
                blocked_ns: 17,
                unseen_ns: 18,
                culprits: vec![CulpritHour {
                    kind: "foreign",
                    name: "backup".to_owned(),
                    ns: 13,
                }],
                waits: vec![
                    WaitHour {
                        up_to_ns: Some(1_000),
                        waits: 8,
                    },
                    WaitHour {
                        up_to_ns: None,
                        waits: 9,
                    },
                ],
            },
            VmHour::default(),
        ],
    }
}

/// Returns the non-null columns of a row, without the columns that every row has.
fn told(row: BTreeMap<String, Field>) -> String {
    let everywhere = ["begin_utc", "end_utc", "period_ns", "is_whole"];
    let told = row
        .iter()
        .filter(|(column, field)| **field != Field::Null && !everywhere.contains(&column.as_str()));
    let told = told.map(|(column, field)| format!("{column}={field}"));
    told.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_row_has_what_it_is_about_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(hour().place("rack-7"));
    place(&file, &hour().parquet().unwrap(), Readers::Anyone).unwrap();
    let reader = SerializedFileReader::new(File::open(file).unwrap()).unwrap();
    let rows: Vec<BTreeMap<String, Field>> = reader
        .get_row_iter(None)
        .unwrap()
        .map(|row| row.unwrap().into_columns().into_iter().collect())
        .collect();
    for row in &rows {
        let begin = Field::TimestampMicros(1_795_611_600_250_000);
        let end = Field::TimestampMicros(1_795_615_200_500_000);
        assert_eq!((&row["begin_utc"], &row["end_utc"]), (&begin, &end));
        assert_eq!(row["period_ns"], Field::Long(3_600_250_000_000));
        assert_eq!(row["is_whole"], Field::Bool(true));
    }
    let told: Vec<String> = rows.into_iter().map(told).collect();
    assert_eq!(
        told,
        [
            r#"about="host" missed_events=4 probe_ns=7 self_cpu_ns=6 tool_version="1.2.3" vcpus_without_room=5"#,
            r#"about="vm" asleep_ns=12 blocked_ns=17 halted_ns=11 idle_ns=15 preempted_ns=13 running_ns=10 throttled_ns=14 unseen_ns=18 unsure_ns=16 vcpus=2 vm="web""#,
            r#"about="culprit" culprit="backup" culprit_kind="foreign" culprit_ns=13 vm="web""#,
            r#"about="wait" vm="web" wait_up_to_ns=1000 waits=8"#,
            r#"about="wait" vm="web" waits=9"#,
            r#"about="vm" asleep_ns=0 blocked_ns=0 halted_ns=0 idle_ns=0 preempted_ns=0 running_ns=0 throttled_ns=0 unseen_ns=0 unsure_ns=0 vcpus=0"#,
        ]
    );
}
