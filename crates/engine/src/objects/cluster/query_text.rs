//! The text by which all nodes compute a query, and the query that it is.

use std::sync::Arc;

use swiftwater_cluster::{DistributedQuery, NotDistributed, OperatorKey, QueryNumber, events_of};
use swiftwater_event::Millis;
use swiftwater_lang::{
    Dialect, ParseOptions, Schema, parse, parse_json,
    plan::{Body, Expr, Literal, Query},
};
use swiftwater_live::{StandingQuery, event_filter};
use swiftwater_runtime::{QueryForm, SubmitOptions};

use super::{QueryMessage, TextForm};

/// The query for all events.
const ALL: &str = "SELECT * FROM STREAM()";

/// The text of a query for all nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct QueryText {
    pub(super) text: String,
    pub(super) form: TextForm,
    /// The node that is asked computes the query from events, which the text selects.
    pub(super) is_of_events: bool,
}

/// A query as this node serves it, from a time on, and its text for all nodes. `plan` is that of its text here: with what this node alone has.
pub(super) fn served(
    text: &str,
    options: &SubmitOptions,
    plan: &Query,
    schema: Option<&Schema>,
    now: Millis,
    ends: Option<Millis>,
) -> Result<(QueryText, DistributedQuery), String> {
    let compiled = StandingQuery::compile(plan.clone()).map_err(|error| error.to_string())?;
    match DistributedQuery::new(0, now, ends, Arc::new(compiled)) {
        Ok(_) => {
            let text = QueryText { text: text.to_owned(), ..QueryText::default() };
            let query = standing(&text.text, (text.form, &options.parameters), now, schema)?;
            let query = DistributedQuery::new(0, now, ends, query).map_err(|why| why.to_string())?;
            Ok((text, query))
        }
        Err(NotDistributed::NeedsEvents) => {
            let (text, form) = match form_of(options, plan.dialect) {
                TextForm::Native => (selecting(plan, schema, now)?, TextForm::Native),
                bullets => {
                    // Other nodes do not have the schema by which this one may have read it.
                    let there = parsed(text, (bullets, &[]), now, None)?;
                    let is_same = event_filter(&there) == event_filter(plan);
                    if is_same { (text.to_owned(), bullets) } else { (ALL.to_owned(), TextForm::Native) }
                }
            };
            let query = DistributedQuery::of_events(0, now, ends, plan).map_err(|why| why.to_string())?;
            // The operator is that of the query that other nodes compute.
            let operator = match form {
                TextForm::Native => {
                    let sent = standing(&text, (form, &[]), now, schema)?;
                    DistributedQuery::new(0, now, ends, sent).map_err(|why| why.to_string())?.operator
                }
                TextForm::Bullet | TextForm::BulletJson => query.operator,
            };
            Ok((QueryText { text, form, is_of_events: true }, query.by(operator)))
        }
        Err(why) => Err(why.to_string()),
    }
}

/// The text of the query for the events that another query needs. If its condition has no text of which a parser makes the same, it is for all events.
fn selecting(plan: &Query, schema: Option<&Schema>, now: Millis) -> Result<String, String> {
    let events = events_of(plan).map_err(|why| why.to_string())?;
    let Some(filter) = &events.filter else { return Ok(ALL.to_owned()) };
    let text = format!("{ALL} WHERE {filter}");
    let read = parsed(&text, (TextForm::Native, &[]), now, schema);
    let is_same = read.is_ok_and(|read| read.filter.as_ref() == Some(filter));
    Ok(if is_same { text } else { ALL.to_owned() })
}

impl QueryMessage {
    /// The text that its client sent.
    pub(super) fn asked_text(&self) -> &str {
        self.asked.as_ref().map_or(&self.text, |(text, _)| text)
    }
}

/// A query as workers compute it.
pub(super) fn computed(
    number: QueryNumber,
    begins: Millis,
    asked: &QueryMessage,
    schema: Option<&Schema>,
) -> Result<DistributedQuery, String> {
    let ends = asked.duration_ms.map(|ms| begins.saturating_add_unsigned(ms));
    let parameters = literals(&asked.parameters)?;
    // A text that selects events has their values in it.
    let parameters = if asked.asked.is_some() { &[][..] } else { &parameters };
    let text = (asked.form, parameters);
    let query = match asked.form {
        TextForm::Native => {
            let query = standing(&asked.text, text, begins, schema)?;
            DistributedQuery::new(number, begins, ends, query)
        }
        TextForm::Bullet | TextForm::BulletJson => {
            DistributedQuery::of_events(number, begins, ends, &parsed(&asked.text, text, begins, schema)?)
        }
    };
    let (first, second) = asked.operator;
    query.map(|query| query.by(OperatorKey(first, second))).map_err(|why| why.to_string())
}

fn standing(
    text: &str,
    form: (TextForm, &[Literal]),
    begins: Millis,
    schema: Option<&Schema>,
) -> Result<Arc<StandingQuery>, String> {
    let plan = parsed(text, form, begins, schema)?;
    StandingQuery::compile(plan).map(Arc::new).map_err(|errors| errors.to_string())
}

/// The plan of a text over a stream of these columns, as every node makes it: without what one node alone has declared.
fn parsed(
    text: &str,
    (form, parameters): (TextForm, &[Literal]),
    begins: Millis,
    schema: Option<&Schema>,
) -> Result<Query, String> {
    let dialect = dialect_of(form);
    let schema = schema.filter(|_| dialect == Dialect::Native);
    let options =
        ParseOptions { text_bytes_max: usize::MAX, schema, parameters, ..ParseOptions::new(dialect, begins) };
    let statement = match form {
        TextForm::BulletJson => parse_json(text.trim_start_matches('\u{feff}'), &options),
        TextForm::Native | TextForm::Bullet => parse(text, &options),
    };
    statement.map(|statement| statement.query).map_err(|errors| errors.to_string())
}

pub(super) fn form_of(options: &SubmitOptions, dialect: Dialect) -> TextForm {
    match (dialect, options.form) {
        (Dialect::Native, _) => TextForm::Native,
        (Dialect::Bullet, QueryForm::Bql) => TextForm::Bullet,
        (Dialect::Bullet, QueryForm::Json) => TextForm::BulletJson,
    }
}

fn dialect_of(form: TextForm) -> Dialect {
    match form {
        TextForm::Native => Dialect::Native,
        TextForm::Bullet | TextForm::BulletJson => Dialect::Bullet,
    }
}

/// The options with which a query was asked that goes on without its client.
pub(super) fn options_of(asked: &QueryMessage) -> Result<SubmitOptions, String> {
    let form = asked.asked.as_ref().map_or(asked.form, |(_, form)| *form);
    Ok(SubmitOptions {
        dialect: dialect_of(form),
        detach: true,
        parameters: literals(&asked.parameters)?,
        form: if form == TextForm::BulletJson { QueryForm::Json } else { QueryForm::Bql },
        times: asked.times,
        waits: asked.waits,
        ..SubmitOptions::default()
    })
}

fn literals(texts: &[String]) -> Result<Vec<Literal>, String> {
    texts.iter().map(|text| literal(text)).collect()
}

/// The literal that a text is.
fn literal(text: &str) -> Result<Literal, String> {
    let query = format!("SELECT {text} AS v FROM STREAM()");
    let parsed =
        parse(&query, &ParseOptions::new(Dialect::Native, 0)).map_err(|errors| errors.to_string())?;
    match parsed.query.body {
        Body::Raw(raw) => match raw.columns.into_iter().next().map(|column| column.expr) {
            Some(Expr::Literal(literal)) => Ok(literal),
            _ => Err(format!("`{text}` is no literal")),
        },
        Body::Group(_) => Err(format!("`{text}` is no literal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(text: &str, parameters: Vec<Literal>) -> Result<QueryText, String> {
        let parse_options = ParseOptions { parameters: &parameters, ..ParseOptions::new(Dialect::Native, 0) };
        let plan = parse(text, &parse_options).map_err(|errors| errors.to_string())?.query;
        let options = SubmitOptions { parameters, ..SubmitOptions::default() };
        let ends = plan.duration_ms.map(|ms| ms as Millis);
        served(text, &options, &plan, None, 0, ends).map(|(text, _)| text)
    }

    #[test]
    fn literals_are_read_as_they_are_written() {
        for literal_of in [
            Literal::Null,
            Literal::Boolean(true),
            Literal::Integer(-3),
            Literal::Long(-3),
            Literal::Long(i64::MIN),
            Literal::Float(1.5),
            Literal::Double(-2.0),
            Literal::Double(1e300),
            Literal::String("it's".into()),
        ] {
            assert_eq!(literal(&literal_of.to_string()), Ok(literal_of));
        }
    }

    #[test]
    fn queries_that_nodes_compute_together_are_sent_as_they_are() {
        let text =
            "SELECT k, COUNT(*) AS n FROM STREAM(s) WHERE v > $1 GROUP BY k WINDOWING TUMBLING(1000, TIME)";
        let sent = text_of(text, vec![Literal::Long(5)]).unwrap();
        assert_eq!(sent, QueryText { text: text.to_owned(), ..QueryText::default() });
    }

    #[test]
    fn of_others_the_condition_on_events_is_sent() {
        let text = "SELECT LAST(v) AS v FROM STREAM(s) WHERE k = $1 AND a.b IS NOT NULL GROUP BY k \
                    WINDOWING TUMBLING(5, RECORD)";
        let sent = text_of(text, vec![Literal::String("x".into())]).unwrap();
        assert_eq!(sent.text, "SELECT * FROM STREAM() WHERE k = 'x' AND a.b IS NOT NULL");
        assert!(sent.is_of_events);
        // Every event may close windows by the events' own time.
        let text = "SELECT COUNT(*) AS n FROM STREAM(s) WHERE k = 1 WINDOWING TUMBLING(5, EVENT(t))";
        assert_eq!(text_of(text, vec![]).unwrap().text, "SELECT * FROM STREAM()");
        let no_end = text_of("SELECT COUNT(*) AS n FROM STREAM(s)", vec![]).unwrap_err();
        assert!(no_end.contains("add WINDOWING"), "{no_end}");
        let sampled = text_of("SELECT LAST(v) AS v FROM STREAM(1000, TIME) SAMPLE 10%", vec![]).unwrap_err();
        assert!(sampled.contains("SAMPLE"), "{sampled}");
    }
}
