//! Prints endpoints in their normal form.

use std::fmt::{self, Display};

use super::{
    CreateEndpoint, ElseClause, EndpointAction, EndpointColumn, EndpointName, EndpointOptions, Parameter,
    ParameterCheck, ParameterPlace, Refusal, RowSource,
};
use crate::{
    ddl::print::{TypeText, path_text, when, write_name, write_options, write_quoted},
    keyword::Keyword,
    lexer::is_word,
};

impl Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.method.text())?;
        write_quoted(f, &self.path.to_string(), '\'')
    }
}

impl Display for CreateEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CREATE ENDPOINT {}{}", when(self.if_not_exists, "IF NOT EXISTS "), self.name)?;
        let items = self.parameters.len() + self.checks.len();
        if items > 0 {
            f.write_str(" (")?;
            for (at, parameter) in self.parameters.iter().enumerate() {
                write!(f, "{}\n  ", when(at > 0, ","))?;
                self.write_parameter(f, parameter)?;
            }
            for (at, check) in self.checks.iter().enumerate() {
                write!(f, "{}\n  {check}", when(at + self.parameters.len() > 0, ","))?;
            }
            f.write_str("\n)")?;
        }
        match &self.action {
            EndpointAction::Into { stream, event, returning } => {
                f.write_str(" INTO ")?;
                write_name(f, stream.as_str())?;
                if let Some(event) = event {
                    write_columns(f, "\nSELECT ", event)?;
                }
                if let Some(returning) = returning {
                    write_columns(f, "\nRETURNING ", returning)?;
                }
            }
            EndpointAction::Select { columns, source, otherwise } => {
                write_columns(f, " AS\nSELECT ", columns)?;
                if let Some(RowSource { view, condition, limit }) = source {
                    f.write_str(" FROM ")?;
                    write_name(f, view)?;
                    if let Some(condition) = condition {
                        write!(f, " WHERE {condition}")?;
                    }
                    if let Some(limit) = limit {
                        write!(f, " LIMIT {limit}")?;
                    }
                }
                match otherwise {
                    None => {}
                    Some(ElseClause::Status(refusal)) => write!(f, "\n{refusal}")?,
                    Some(ElseClause::Row(columns)) => write_columns(f, "\nELSE SELECT ", columns)?,
                }
            }
        }
        if self.options != EndpointOptions::default() {
            f.write_str("\nWITH (")?;
            write_options(f, self.options.settings().map(|(option, value)| (option.text(), value)))?;
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl CreateEndpoint {
    fn write_parameter(&self, f: &mut fmt::Formatter<'_>, parameter: &Parameter) -> fmt::Result {
        write_name(f, &parameter.name)?;
        write!(f, " {}", TypeText(&parameter.ty))?;
        let is_usual = parameter.place == self.usual_place(&parameter.name);
        match &parameter.place {
            ParameterPlace::Path => f.write_str(" PATH")?,
            _ if is_usual => {}
            ParameterPlace::Query(name) => {
                f.write_str(" QUERY")?;
                if *name != parameter.name {
                    f.write_str(" ")?;
                    write_quoted(f, name, '\'')?;
                }
            }
            ParameterPlace::Body(path) => {
                f.write_str(" BODY")?;
                if *path != swiftwater_event::Path::field(parameter.name.clone()) {
                    f.write_str(" ")?;
                    write_quoted(f, &path_text(path), '\'')?;
                }
            }
        }
        f.write_str(when(parameter.not_null, " NOT NULL"))?;
        if let Some(default) = &parameter.default {
            write!(f, " DEFAULT {default}")?;
        }
        parameter.checks.iter().try_for_each(|check| write!(f, " {check}"))
    }
}

impl Display for ParameterCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.check.fmt(f)?;
        self.refusal.iter().try_for_each(|refusal| write!(f, " {refusal}"))
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ELSE {}", self.status)?;
        if let Some(message) = &self.message {
            f.write_str(" ")?;
            write_quoted(f, message, '\'')?;
        }
        Ok(())
    }
}

fn write_columns(f: &mut fmt::Formatter<'_>, head: &str, columns: &[EndpointColumn]) -> fmt::Result {
    f.write_str(head)?;
    for (at, EndpointColumn { name, text }) in columns.iter().enumerate() {
        write!(f, "{}{text}", when(at > 0, ", "))?;
        // A plain name names itself.
        if **name != **text || !is_word(text) || Keyword::of(text).is_some() {
            f.write_str(" AS ")?;
            write_name(f, name)?;
        }
    }
    Ok(())
}
