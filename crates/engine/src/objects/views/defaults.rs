//! The declared default values of a stream, for fields that an event lacks: the same as in the stream's table.

use swiftwater_event::{Path, Primitive, TimeUnit, Type};
use swiftwater_lang::{
    QueryErrors,
    ddl::{CreateStream, DefaultValue},
    plan::{Expr, Function},
};

/// The defaults of missing values, by their path in an event.
pub(crate) struct Defaults(Vec<(Path, Expr)>);

impl Defaults {
    pub(crate) fn of(stream: &CreateStream) -> Result<Defaults, QueryErrors> {
        let mut defaults = Vec::new();
        for column in &stream.columns {
            let value = match &column.default {
                Some(DefaultValue::Constant(constant)) => cast(constant.expr()?, column.ty.clone()),
                Some(DefaultValue::Now) => {
                    let arrival = Expr::Call { function: Function::Arrival, args: Vec::new() };
                    match column.ty {
                        // A number is in the unit of a TIMESTAMP's column; this one is in milliseconds.
                        Type::Primitive(Primitive::Timestamp(_)) => {
                            cast(arrival, Type::Primitive(Primitive::Timestamp(TimeUnit::Millisecond)))
                        }
                        _ => arrival,
                    }
                }
                None => continue,
            };
            defaults.push((column.event_path(), value));
        }
        Ok(Defaults(defaults))
    }

    /// Makes an expression over an event read them.
    pub(crate) fn put(&self, expr: &mut Expr) {
        match expr {
            Expr::Path { path, .. } => {
                let default = self.0.iter().find(|(of, _)| of == path);
                if let Some((_, value)) = default {
                    let args = vec![expr.clone(), value.clone()];
                    *expr = Expr::Call { function: Function::Coalesce, args };
                }
            }
            Expr::Call { args, .. } => args.iter_mut().for_each(|arg| self.put(arg)),
            Expr::Literal(_) | Expr::Slot(_) => {}
        }
    }
}

fn cast(value: Expr, ty: Type) -> Expr {
    Expr::Call { function: Function::Cast(ty), args: vec![value] }
}
