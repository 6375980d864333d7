//! Renders relations and expressions as SQL.

use super::{
    Aggregate, Comparison, Expr, Grouping, JoinKind, Key, Quantifier, Relation, Table, Type, Value,
    WindowFunction,
};

/// Renders one statement; subqueries in FROM are numbered, and queries of WITH stand before all.
pub(crate) struct Renderer<'a> {
    tables: &'a [Table],
    subqueries: usize,
    /// The names by number.
    named: Vec<(usize, String)>,
}

impl<'a> Renderer<'a> {
    pub(crate) fn new(tables: &'a [Table]) -> Renderer<'a> {
        Renderer { tables, subqueries: 0, named: Vec::new() }
    }

    /// A whole statement, with what stands behind its rows: an ORDER BY, a LIMIT.
    pub(crate) fn statement(
        mut self,
        relation: &Relation,
        behind: impl FnOnce(&mut Self) -> String,
    ) -> String {
        let body = match relation {
            Relation::First { .. } | Relation::Union { .. } => {
                format!("SELECT * FROM {}", self.from(relation))
            }
            _ => self.query(relation),
        };
        let behind = behind(&mut self);
        let named: Vec<String> =
            self.named.iter().map(|(name, query)| format!("w{name} AS ({query})")).collect();
        let with = if named.is_empty() { String::new() } else { format!("WITH {} ", named.join(", ")) };
        format!("{with}{body}{behind}")
    }

    fn from(&mut self, relation: &Relation) -> String {
        let query = self.query(relation);
        self.subqueries += 1;
        format!("({query}) AS q{}", self.subqueries)
    }

    fn items(&mut self, items: &[(Expr, usize)]) -> Vec<String> {
        items.iter().map(|(expr, column)| format!("{} AS n{column}", self.expr(expr))).collect()
    }

    pub(crate) fn query(&mut self, relation: &Relation) -> String {
        match relation {
            Relation::Table { table, columns } => {
                let table = &self.tables[*table];
                let items: Vec<String> = table
                    .columns
                    .iter()
                    .zip(columns)
                    .map(|((name, _), column)| format!("{name} AS n{column}"))
                    .collect();
                format!("SELECT {} FROM {}", items.join(", "), table.name)
            }
            Relation::Named { name, definition, columns } => {
                if !self.named.iter().any(|(known, _)| known == name) {
                    let query = self.query(definition);
                    self.named.push((*name, query));
                }
                let own = definition.columns();
                let items: Vec<String> =
                    own.iter().zip(columns).map(|(own, column)| format!("n{own} AS n{column}")).collect();
                format!("SELECT {} FROM w{name}", items.join(", "))
            }
            Relation::Filter { input, condition } => {
                let from = self.from(input);
                format!("SELECT * FROM {from} WHERE {}", self.expr(condition))
            }
            Relation::Project { input, items } => {
                let (items, from) = (self.items(items).join(", "), self.from(input));
                format!("SELECT {items} FROM {from}")
            }
            Relation::Join { kind, left, right, on } => {
                let (left, right, on) = (self.from(left), self.from(right), self.expr(on));
                let kind = match kind {
                    JoinKind::Inner => "JOIN",
                    JoinKind::Left => "LEFT JOIN",
                    JoinKind::Right => "RIGHT JOIN",
                    JoinKind::Full => "FULL JOIN",
                };
                format!("SELECT * FROM {left} {kind} {right} ON {on}")
            }
            Relation::Group { input, grouping, keys, aggregates, having } => {
                let mut items = self.items(keys);
                for (function, column) in aggregates {
                    items.push(format!("{} AS n{column}", self.aggregate(function)));
                }
                let exprs: Vec<String> = keys.iter().map(|(key, _)| self.expr(key)).collect();
                let all = exprs.join(", ");
                let by = match (grouping, keys.is_empty()) {
                    (_, true) => String::new(),
                    (Grouping::Plain, _) => format!(" GROUP BY {all}"),
                    (Grouping::Rollup, _) => format!(" GROUP BY ROLLUP ({all})"),
                    (Grouping::Cube, _) => format!(" GROUP BY CUBE ({all})"),
                    (Grouping::Sets, _) => {
                        let alone: Vec<String> = exprs.iter().map(|key| format!("({key})")).collect();
                        format!(" GROUP BY GROUPING SETS ({}, ({all}))", alone.join(", "))
                    }
                };
                let from = self.from(input);
                let grouped = format!("SELECT {} FROM {from}{by}", items.join(", "));
                // A condition names the columns of the result, which HAVING may not.
                match having {
                    None => grouped,
                    Some(having) => {
                        self.subqueries += 1;
                        let number = self.subqueries;
                        format!("SELECT * FROM ({grouped}) AS q{number} WHERE {}", self.expr(having))
                    }
                }
            }
            Relation::Window { input, function, partition, order, column } => {
                let function = match function {
                    WindowFunction::RowNumber => "row_number()".to_owned(),
                    WindowFunction::Rank => "rank()".to_owned(),
                    WindowFunction::DenseRank => "dense_rank()".to_owned(),
                    WindowFunction::Aggregate(function) => self.aggregate(function),
                };
                let mut over = Vec::new();
                if !partition.is_empty() {
                    let exprs: Vec<String> = partition.iter().map(|expr| self.expr(expr)).collect();
                    over.push(format!("PARTITION BY {}", exprs.join(", ")));
                }
                if !order.is_empty() {
                    over.push(format!("ORDER BY {}", self.keys(order)));
                }
                let from = self.from(input);
                format!("SELECT *, {function} OVER ({}) AS n{column} FROM {from}", over.join(" "))
            }
            Relation::Union { left, right, columns } => {
                let (own, left, right) = (left.columns(), self.query(left), self.from(right));
                let items: Vec<String> =
                    own.iter().zip(columns).map(|(own, column)| format!("n{own} AS n{column}")).collect();
                self.subqueries += 1;
                let number = self.subqueries;
                format!(
                    "SELECT {} FROM ({left}) AS q{number} UNION ALL SELECT * FROM {right}",
                    items.join(", ")
                )
            }
            Relation::Distinct { input } => format!("SELECT DISTINCT * FROM {}", self.from(input)),
            Relation::First { input, order, limit, offset } => {
                let from = self.from(input);
                let offset = if *offset > 0 { format!(" OFFSET {offset}") } else { String::new() };
                format!("SELECT * FROM {from} ORDER BY {} LIMIT {limit}{offset}", self.keys(order))
            }
            Relation::Unnested { input, keys, list, column } => {
                let items = self.items(keys).join(", ");
                let exprs: Vec<String> = keys.iter().map(|(key, _)| self.expr(key)).collect();
                let (list, from) = (self.expr(list), self.from(input));
                format!(
                    "SELECT {items}, unnest(array_agg({list})) AS n{column} FROM {from} GROUP BY {}",
                    exprs.join(", ")
                )
            }
        }
    }

    pub(crate) fn keys(&mut self, keys: &[Key]) -> String {
        let keys: Vec<String> = keys
            .iter()
            .map(|key| {
                let direction = if key.descending { " DESC" } else { "" };
                // The default is not written.
                let nulls = match (key.nulls_first, key.descending) {
                    (true, false) => " NULLS FIRST",
                    (false, true) => " NULLS LAST",
                    _ => "",
                };
                format!("{}{direction}{nulls}", self.expr(&key.expr))
            })
            .collect();
        keys.join(", ")
    }

    fn aggregate(&mut self, function: &Aggregate) -> String {
        match function {
            Aggregate::Rows => "count(*)".to_owned(),
            Aggregate::Count(expr) => format!("count({})", self.expr(expr)),
            Aggregate::CountDistinct(expr) => format!("count(DISTINCT {})", self.expr(expr)),
            Aggregate::Sum(expr) => format!("sum({})", self.expr(expr)),
            Aggregate::Min(expr) => format!("min({})", self.expr(expr)),
            Aggregate::Max(expr) => format!("max({})", self.expr(expr)),
        }
    }

    fn chain(&mut self, exprs: &[Expr], word: &str) -> String {
        let exprs: Vec<String> = exprs.iter().map(|expr| self.expr(expr)).collect();
        format!("({})", exprs.join(word))
    }

    pub(crate) fn expr(&mut self, expr: &Expr) -> String {
        match expr {
            Expr::Column(column) => format!("n{column}"),
            Expr::Literal(Value::Null, ty) => match ty {
                Type::Boolean => "CAST(NULL AS BOOLEAN)".to_owned(),
                Type::Long => "CAST(NULL AS BIGINT)".to_owned(),
                Type::Text => "CAST(NULL AS VARCHAR)".to_owned(),
            },
            Expr::Literal(value, _) => literal(value),
            Expr::Compare(comparison, left, right) => {
                format!("({} {} {})", self.expr(left), sign(*comparison), self.expr(right))
            }
            Expr::Plus(expr, number) => format!("({} + {number})", self.expr(expr)),
            Expr::Coalesce(first, second) => format!("coalesce({}, {})", self.expr(first), self.expr(second)),
            Expr::Case { when, then, otherwise } => {
                format!(
                    "CASE WHEN {} THEN {} ELSE {} END",
                    self.expr(when),
                    self.expr(then),
                    self.expr(otherwise)
                )
            }
            Expr::And(exprs) => self.chain(exprs, " AND "),
            Expr::Or(exprs) => self.chain(exprs, " OR "),
            Expr::Not(expr) => format!("(NOT {})", self.expr(expr)),
            Expr::IsNull { expr, negated } => {
                format!("({} IS {}NULL)", self.expr(expr), if *negated { "NOT " } else { "" })
            }
            Expr::InList { expr, values, negated } => {
                let values: Vec<String> = values.iter().map(literal).collect();
                format!("({} {}IN ({}))", self.expr(expr), not(*negated), values.join(", "))
            }
            Expr::In { exprs, query, negated } => {
                let values = match exprs.as_slice() {
                    [expr] => self.expr(expr),
                    exprs => self.chain(exprs, ", "),
                };
                format!("({values} {}IN ({}))", not(*negated), self.query(query))
            }
            Expr::Exists { query, negated } => format!("({}EXISTS ({}))", not(*negated), self.query(query)),
            Expr::Scalar(query) => format!("({})", self.query(query)),
            Expr::Quantified { expr, comparison, quantifier, query } => {
                let quantifier = match quantifier {
                    Quantifier::Any => "ANY",
                    Quantifier::All => "ALL",
                };
                format!("({} {} {quantifier} ({}))", self.expr(expr), sign(*comparison), self.query(query))
            }
        }
    }
}

fn not(negated: bool) -> &'static str {
    if negated { "NOT " } else { "" }
}

fn sign(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "=",
        Comparison::NotEqual => "<>",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "NULL".to_owned(),
        Value::Boolean(value) => value.to_string(),
        Value::Long(value) => value.to_string(),
        Value::Text(text) => format!("'{text}'"),
    }
}
