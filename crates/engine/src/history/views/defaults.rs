//! What stands for values that an event lacks, where its stream declares that: the same as in the stream's table.

use swiftwater_event::Path;
use swiftwater_lang::{
    QueryErrors,
    ddl::{CreateStream, DefaultValue},
    plan::{Expr, Function},
};

/// The constants that stand in for missing values, by where these lie in an event. When an event arrived (`DEFAULT NOW`) is
/// not among them.
pub(in crate::history) struct Defaults(Vec<(Path, Expr)>);

impl Defaults {
    pub(in crate::history) fn of(stream: &CreateStream) -> Result<Defaults, QueryErrors> {
        let mut defaults = Vec::new();
        for column in &stream.columns {
            if let Some(DefaultValue::Constant(constant)) = &column.default {
                let function = Function::Cast(column.ty.clone());
                let value = Expr::Call { function, args: vec![constant.expr()?] };
                defaults.push((column.event_path(), value));
            }
        }
        Ok(Defaults(defaults))
    }

    /// Lets an expression over an event read them.
    pub(in crate::history) fn put(&self, expr: &mut Expr) {
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
