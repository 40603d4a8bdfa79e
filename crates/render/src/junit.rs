//! JUnit XML: test suites that contain test cases.

use std::io;

use anyhow::Result;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

type Xml = Writer<Vec<u8>>;

/// Result of a test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseOutcome {
    /// The test passed.
    Good,
    /// The test case was skipped, and does not affect the result.
    Skipped,
    /// The test failed.
    Failed,
    /// The result is unknown. JUnit counts this as an error of the test, not as a failure of the
    /// machine.
    Unknown,
}

/// Test case.
pub struct Case {
    /// Name, as JUnit viewers show it.
    pub name: String,
    /// Result.
    pub outcome: CaseOutcome,
    /// Verdict in the words of the command.
    pub verdict: &'static str,
    /// Message, one line long.
    pub message: String,
    /// Further lines of the output.
    pub said: Vec<String>,
}

/// Test cases that belong together.
pub struct TestSuite {
    /// Name, as JUnit viewers show it.
    pub name: String,
    /// Test cases, in the order of the document.
    pub cases: Vec<Case>,
}

/// Renders a document that contains these suites.
///
/// # Errors
/// If the document cannot be written.
pub fn render(suites: &[TestSuite]) -> Result<String> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 4);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all = xml
        .create_element("testsuites")
        .with_attribute(("name", "vmnoise"));
    all.write_inner_content(|xml| suites.iter().try_for_each(|it| it.write(xml)))?;
    let mut text = String::from_utf8(xml.into_inner())?;
    text.push('\n');
    Ok(text)
}

impl TestSuite {
    fn write(&self, xml: &mut Xml) -> io::Result<()> {
        let cases = &self.cases;
        let count = |outcome| cases.iter().filter(|it| it.outcome == outcome).count();
        let counts = [
            ("tests", cases.len()),
            ("failures", count(CaseOutcome::Failed)),
            ("errors", count(CaseOutcome::Unknown)),
            ("skipped", count(CaseOutcome::Skipped)),
        ];
        let counts = counts.map(|(name, count)| (name, count.to_string()));
        let suite = xml
            .create_element("testsuite")
            .with_attribute(("name", &*sayable(&self.name)));
        let suite = suite.with_attributes(counts.iter().map(|(name, count)| (*name, &**count)));
        suite.write_inner_content(|xml| cases.iter().try_for_each(|it| it.write(xml)))?;
        Ok(())
    }
}

impl Case {
    fn write(&self, xml: &mut Xml) -> io::Result<()> {
        let message = sayable(&self.message);
        let said = sayable(&self.said.join("\n"));
        let case = xml.create_element("testcase");
        let case =
            case.with_attributes([("name", &*sayable(&self.name)), ("classname", "vmnoise")]);
        case.write_inner_content(|xml| {
            let kind = match self.outcome {
                CaseOutcome::Good => "system-out",
                CaseOutcome::Skipped => "skipped",
                CaseOutcome::Failed => "failure",
                CaseOutcome::Unknown => "error",
            };
            let element = xml.create_element(kind);
            match self.outcome {
                CaseOutcome::Good => {
                    let said = format!("{}: {message}\n{said}", self.verdict);
                    element.write_text_content(BytesText::new(said.trim_end()))?;
                }
                _ => {
                    let attributes = [("message", &*message), ("type", self.verdict)];
                    let element = element.with_attributes(attributes);
                    element.write_text_content(BytesText::new(&said))?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// Replaces characters that XML cannot contain, not even in escaped form.
fn sayable(text: &str) -> String {
    let is_sayable = |letter: char| match letter {
        '\n' | '\t' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        letter => letter >= ' ',
    };
    text.replace(|letter| !is_sayable(letter), "\u{fffd}")
}
