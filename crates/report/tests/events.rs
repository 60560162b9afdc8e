//! The line of every kind of event, compared with a recorded text.

use zerolag_trace::Trace;

const TRACE: &[u8] = include_bytes!("../../trace/tests/data/every-kind.zlt");
const RECORDED: &str = include_str!("../../trace/tests/data/every-kind.events.txt");

#[test]
fn the_line_of_every_kind_is_as_recorded() {
    let trace = Trace::from_bytes(TRACE).expect("a trace");
    let lines = zerolag_report::events::events(&trace, |_, _| true);
    let differs = lines.lines().zip(RECORDED.lines()).find(|(now, then)| now != then);
    assert_eq!(differs, None);
    assert_eq!(lines.lines().count(), RECORDED.lines().count());
}
