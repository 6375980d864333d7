//! Builds events from requests.

use bumpalo::Bump;
use swiftwater_lang::ddl::OtherFields;
use swiftwater_live::expr::Scratch;

use super::{
    Endpoint, EndpointError, EndpointInput, EndpointLimits,
    input::{checked, first_other, read},
    select::write_row,
    shape::{BodyConflict, IntoPlan},
};

/// The text of the event that a request makes, and what is answered when it was taken.
pub(super) fn event(
    endpoint: &Endpoint,
    plan: &IntoPlan,
    input: &EndpointInput<'_>,
    (now, limits): (swiftwater_event::Millis, &EndpointLimits),
    (scratch, arena): (&mut Scratch, &Bump),
) -> Result<(Vec<u8>, Option<Vec<u8>>), EndpointError> {
    let body = if endpoint.reads_body() { Some(checked("body", &input.body, limits)?) } else { None };
    // Events are UTF-8: that was checked.
    let text = body.as_ref().and_then(|body| std::str::from_utf8(body.event(0)).ok());
    let others = endpoint.other_fields();
    let (parameters, checks) = (&endpoint.parameters[..], &endpoint.checks[..]);
    let keeps_others = others != OtherFields::Ignore;
    let said = read(parameters, checks, (&input.texts, text), (now, keeps_others), (scratch, arena))?;
    if others == OtherFields::Refuse
        && let Some(path) = first_other(parameters, &said.others, arena)
    {
        return Err(EndpointError::refused(400, format!("the body has an unknown field `{path}`")));
    }
    let mut event = Vec::with_capacity(64 + text.map_or(0, str::len));
    plan.event.write(&said, (scratch, arena), &said.others, &mut event).map_err(BodyConflict::refusal)?;
    let answer = plan.returning.as_ref().map(|columns| {
        let mut answer = Vec::new();
        write_row(columns, said.slots, now, (scratch, arena), &mut answer);
        answer.push(b'\n');
        answer
    });
    Ok((event, answer))
}
