//! Resolves names and paths: to values in an event, or to columns.

use swiftwater_event::{Path, Step, Type, did_you_mean};

use super::{Planner, Typed, ViewColumn, check::Ty, lower::Scope};
use crate::{
    Dialect,
    ast::{Name, Node, NodeKind},
    lexer::short,
    plan::{Expr, Function, Literal},
    source::Fault,
};

impl Planner<'_> {
    /// A path into the event, or steps into what a name or expression stands for. `root` is the type hint.
    pub(super) fn path(&mut self, node: &Node, root: Option<&Type>, scope: Scope) -> Option<Typed> {
        match &node.kind {
            NodeKind::Hint(base, ty) => self.path(base, Some(ty), scope),
            NodeKind::Name(name) => self.name(node, name, root, scope),
            NodeKind::Member(base, name) => {
                if let Some(variable) = self.variable_of(base) {
                    self.record_variable(variable);
                    return self.field(node, name, root);
                }
                if let Some(source) = self.source_of(base) {
                    return self.column_of_source(node, source, name, root, scope);
                }
                let base = self.base(base, root, scope)?;
                self.step(node, base, Step::Key(name.text.clone()))
            }
            NodeKind::Index(base, index) => {
                let base = self.base(base, root, scope);
                let index = self.lower(index, scope);
                let (base, index) = (base?, index?);
                match &index.expr {
                    Expr::Literal(Literal::String(key)) => self.step(node, base, Step::Key(key.clone())),
                    Expr::Literal(Literal::Integer(place)) if *place >= 0 => {
                        self.step(node, base, Step::Index(place.unsigned_abs()))
                    }
                    Expr::Literal(Literal::Long(place)) if u32::try_from(*place).is_ok() => {
                        self.step(node, base, Step::Index(*place as u32))
                    }
                    _ => Some(self.typed_call(Function::Element, vec![base, index])),
                }
            }
            _ => self.lower(node, scope),
        }
    }

    /// The base of a step: also as a whole it may be a key or a column.
    fn base(&mut self, base: &Node, root: Option<&Type>, scope: Scope) -> Option<Typed> {
        match self.resolved(base.bare(), scope) {
            Some(found) => found,
            None => self.path(base, root, scope),
        }
    }

    fn name(&mut self, node: &Node, name: &Name, root: Option<&Type>, scope: Scope) -> Option<Typed> {
        if scope.is_group() {
            return self.name_of_group(node, name);
        }
        self.is_of_one_source(node, name)?;
        self.record_name(node, name)?;
        self.field(node, name, root)
    }

    /// A field of the event, or a column of a lateral view.
    fn field(&mut self, node: &Node, name: &Name, root: Option<&Type>) -> Option<Typed> {
        if let Some(slot) = self.view_column(name) {
            let ty = root.map_or_else(|| self.view_columns[slot].ty.clone(), |root| root.clone().into());
            return Some(Typed { expr: self.view_value(slot), ty });
        }
        if let Some(what) = self.only_slots {
            let fault = Fault::at(node.span, format!("there is no {what} `{}`", short(&name.text)));
            let names = || self.view_columns.iter().map(|column| &*column.name);
            let parameter = format!("${}", name.text);
            let near = match names().find(|known| *known == parameter) {
                Some(known) => Some(known),
                None => did_you_mean(&name.text, names()),
            };
            let fault = match near {
                Some(near) if near.starts_with('$') => fault.hint(format!("Did you mean {near}?")),
                Some(near) => fault.hint(format!("Did you mean `{near}`?")),
                None if name.quoted && !name.text.starts_with('$') => {
                    fault.hint("Write text in single quotes.")
                }
                None => fault,
            };
            return self.unknown_for(fault);
        }
        if self.only_views {
            let fault = Fault::at(node.span, format!("EXPLODE returns no column `{}`", short(&name.text)));
            return self.unknown_for(fault.hint(
                "Only its columns can be named; LATERAL VIEW EXPLODE also returns the event's fields.",
            ));
        }
        self.event_field(node, name, root)
    }

    /// A field of the event.
    pub(super) fn event_field(&mut self, node: &Node, name: &Name, root: Option<&Type>) -> Option<Typed> {
        let known = self.fields.resolve(name);
        let field = known.clone().unwrap_or_else(|| name.text.clone());
        let (wanted, ty) = match root {
            Some(root) if self.dialect.hints_convert() => (root.clone(), root.clone()),
            Some(root) => (self.fields.requested_type(&field), root.clone()),
            None if known.is_none() && self.fields.is_closed() => return self.unknown_field(node, name),
            None => (self.fields.requested_type(&field), self.fields.checked(&field)),
        };
        Some(Typed { expr: Expr::Path { path: self.fields.path(&field), ty: wanted }, ty: ty.into() })
    }

    /// A name over groups that is neither a key nor a column: the window's bounds, or nothing.
    fn name_of_group(&mut self, node: &Node, name: &Name) -> Option<Typed> {
        if let Some(bound) = self.window_bound(name) {
            return Some(bound);
        }
        self.no_key(node)
    }

    /// Records that this is nothing of a group.
    pub(super) fn no_key(&mut self, node: &Node) -> Option<Typed> {
        if self.keys_are_faulty {
            return None;
        }
        let text = self.text_of(node);
        let what = format!("`{}` is neither a key of the groups nor within an aggregate", short(&text));
        let fault = Fault::at(node.span, what);
        if self.hides_bound(node) {
            let hint = "Here it is a column of the stream, not of the window: rename that column where it is created";
            return self.fault(fault.hint(format!("{hint} (`{text} AS ws`).")));
        }
        let hint = "Add it to GROUP BY, or use it in an aggregate such as MIN(…) or MAX(…).";
        self.unknown_for(fault.hint(hint))
    }

    fn unknown_field(&mut self, node: &Node, name: &Name) -> Option<Typed> {
        let near = did_you_mean(&name.text, self.fields.names());
        let what = match (self.fields.of_pattern, self.fields.are_columns) {
            (true, _) => "MATCH_RECOGNIZE returns no column",
            (false, true) => "the inner query has no column",
            (false, false) => "there is no field",
        };
        let fault = Fault::at(node.span, format!("{what} `{}`", short(&name.text)));
        let fault = match near {
            Some(near) => fault.hint(format!("Did you mean `{near}`?")),
            None if self.fields.of_pattern => fault.hint(
                "It returns the keys of PARTITION BY, the MEASURES, and `match_start` and `match_end`.",
            ),
            None if name.quoted => fault.hint("Write text in single quotes."),
            None => fault,
        };
        self.unknown_for(fault)
    }

    /// The slot of a lateral view's column: exactly, else (native, unquoted) whatever the letter case if that is unique
    /// and no field has the name exactly.
    pub(super) fn view_column(&self, name: &Name) -> Option<usize> {
        // Those of what is joined are named behind the name of that.
        let is_bare = |column: &&ViewColumn| column.source.is_none();
        let exact = self.view_columns.iter().rposition(|column| is_bare(&column) && column.name == name.text);
        if exact.is_some() || name.quoted || !self.dialect.folds_names() {
            return exact;
        }
        if self.fields.resolve(name).is_some_and(|field| field == name.text) {
            return None;
        }
        let folded = name.text.to_lowercase();
        let is_alike = |column: &ViewColumn| is_bare(&column) && column.name.to_lowercase() == folded;
        let mut alike = self.view_columns.iter().enumerate().filter(|(_, column)| is_alike(column));
        match (alike.next(), alike.next()) {
            (Some((slot, _)), None) => Some(slot),
            _ => None,
        }
    }

    /// The value of a lateral view's column. In Bullet a column that is null does not hide what else has its name: that
    /// of a view before, and the event's own field.
    pub(super) fn view_value(&self, slot: usize) -> Expr {
        let value = Expr::Slot(slot);
        let name = &self.view_columns[slot].name;
        if self.dialect != Dialect::Bullet || self.only_views {
            return value;
        }
        let before = (0..slot).rev().filter(|other| self.view_columns[*other].name == *name);
        let mut args: Vec<Expr> = std::iter::once(value).chain(before.map(Expr::Slot)).collect();
        let is_field = self.fields.names().any(|field| *field == **name);
        if is_field || !self.fields.is_closed() {
            args.push(Expr::Path { path: Path::field(name.clone()), ty: self.fields.requested_type(name) });
        }
        match <[Expr; 1]>::try_from(args) {
            Ok([value]) => value,
            Err(args) => Expr::Call { function: Function::Coalesce, args },
        }
    }

    /// One constant step down.
    fn step(&mut self, node: &Node, base: Typed, step: Step) -> Option<Typed> {
        let inner = match (&base.ty, &step) {
            (Ty::Unknown, _) => Type::Any,
            (Ty::Known(Type::Map(inner)), Step::Key(_)) => (**inner).clone(),
            (Ty::Known(Type::List(inner)), Step::Index(_)) => (**inner).clone(),
            (ty, _) => {
                let what = match step {
                    Step::Key(_) => "keys",
                    Step::Index(_) => "elements",
                };
                let text = short(&self.text_of(node));
                let message = format!("`{text}` is not possible: a value of type {ty} has no {what}");
                return self.unknown_for(Fault::at(node.span, message));
            }
        };
        let ty = inner.into();
        let expr = match base.expr {
            Expr::Path { path, ty: wanted } => {
                let wanted = match (wanted, &step) {
                    (Type::Map(inner), Step::Key(_)) | (Type::List(inner), Step::Index(_)) => *inner,
                    _ => Type::Any,
                };
                Expr::Path { path: path.then(step), ty: wanted }
            }
            other => {
                let step = match step {
                    Step::Key(key) => Literal::String(key),
                    Step::Index(place) => match i32::try_from(place) {
                        Ok(place) => Literal::Integer(place),
                        Err(_) => Literal::Long(i64::from(place)),
                    },
                };
                Expr::Call { function: Function::Element, args: vec![other, Expr::Literal(step)] }
            }
        };
        Some(Typed { expr, ty })
    }
}
