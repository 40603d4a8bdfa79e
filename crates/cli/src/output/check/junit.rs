//! For whatever reads the results of tests: a suite for the recording, a case for each limit.

use std::io;

use anyhow::Result;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use vmnoise_explain::check::{Judgement, Verdict};

use super::{Checked, words};

type Xml = Writer<Vec<u8>>;

/// A document; a limit of which nobody can tell is an error of the test, no failure of the machine.
pub(super) fn render(checked: &Checked<'_>) -> Result<String> {
    let judgements = &checked.judged.judgements;
    let count = |verdict| judgements.iter().filter(|it| it.verdict == verdict).count();
    let counts = [
        ("tests", judgements.len()),
        ("failures", count(Verdict::Fail)),
        ("errors", count(Verdict::CannotTell)),
    ];
    let counts = counts.map(|(name, count)| (name, count.to_string()));
    let suite = format!("vmnoise check {}", checked.file);
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 4);
    xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let suites = xml
        .create_element("testsuites")
        .with_attribute(("name", "vmnoise"));
    suites.write_inner_content(|xml| {
        let counts = counts.iter().map(|(name, count)| (*name, &**count));
        let element = xml
            .create_element("testsuite")
            .with_attribute(("name", &*suite));
        let element = element.with_attributes(counts);
        element.write_inner_content(|xml| {
            judgements.iter().try_for_each(|it| case(xml, checked, it))
        })?;
        Ok(())
    })?;
    let mut text = String::from_utf8(xml.into_inner())?;
    text.push('\n');
    Ok(text)
}

fn case(xml: &mut Xml, checked: &Checked<'_>, judgement: &Judgement) -> io::Result<()> {
    let quantity = &judgement.requirement.quantity;
    let at_most = words::value(Some(judgement.requirement.at_most), quantity.unit());
    let has = words::value(judgement.value, quantity.unit());
    let verdict = words::verdict(judgement.verdict);
    let mut said = words::why(checked, judgement);
    said.extend(checked.judged.reasons.iter().map(ToString::to_string));
    said.extend(words::ask_for(checked));
    let name = format!("{quantity} at most {at_most}");
    let case = xml.create_element("testcase");
    let case = case.with_attributes([("name", &*name), ("classname", "vmnoise")]);
    case.write_inner_content(|xml| {
        let kind = match judgement.verdict {
            Verdict::Pass | Verdict::Warn => {
                said.insert(0, format!("{verdict}: {has}"));
                xml.create_element("system-out")
            }
            Verdict::Fail => xml.create_element("failure"),
            Verdict::CannotTell => xml.create_element("error"),
        };
        let message = format!("{quantity} is {has}, limit {at_most}");
        let kind = match judgement.verdict {
            Verdict::Pass | Verdict::Warn => kind,
            _ => kind.with_attributes([("message", &*message), ("type", verdict)]),
        };
        kind.write_text_content(BytesText::new(&said.join("\n")))?;
        Ok(())
    })?;
    Ok(())
}
