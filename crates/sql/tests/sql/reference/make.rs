//! Generates random relations: filters that fix a column, outer joins, groupings in several ways, windows, unions, first
//! rows.

use super::compare::{LONGS, TEXTS};
use super::{
    Aggregate, Comparison, Expr, Grouping, JoinKind, Key, Quantifier, Relation, Type, Value, WindowFunction,
};
use crate::common::Chance;

/// Columns that a relation has at most; joins of wider ones select some.
const COLUMNS_MAX: usize = 6;

pub(crate) struct QueryGenerator<'a> {
    pub(crate) chance: &'a mut Chance,
    /// The types of the columns, by number.
    types: Vec<Type>,
    /// Columns that a filter below fixes. They are sorted and grouped by more often than others: what is known of them must not be
    /// taken for true above an operator that adds nulls.
    fixed: Vec<usize>,
    /// Queries of the WITH clause.
    named: Vec<Relation>,
    /// True if conditions may have subqueries.
    with_subqueries: bool,
}

impl<'a> QueryGenerator<'a> {
    pub(crate) fn new(chance: &'a mut Chance, with_subqueries: bool) -> QueryGenerator<'a> {
        QueryGenerator { chance, types: Vec::new(), fixed: Vec::new(), named: Vec::new(), with_subqueries }
    }

    pub(crate) fn type_of(&self, column: usize) -> Type {
        self.types[column]
    }

    /// Happens once in so many times.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.chance.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.chance.below(from.len() as u64) as usize]
    }

    fn column(&mut self, ty: Type) -> usize {
        self.types.push(ty);
        self.types.len() - 1
    }

    /// A column with the values of another.
    fn image(&mut self, column: usize) -> usize {
        let image = self.column(self.types[column]);
        if self.fixed.contains(&column) {
            self.fixed.push(image);
        }
        image
    }

    /// One of the columns, in half of the cases a fixed one, if there is one.
    fn pick_key(&mut self, columns: &[usize]) -> usize {
        let fixed: Vec<usize> =
            columns.iter().copied().filter(|column| self.fixed.contains(column)).collect();
        match fixed.is_empty() || self.once_in(2) {
            true => self.pick(columns),
            false => self.pick(&fixed),
        }
    }

    fn of_type(&self, columns: &[usize], ty: Type) -> Vec<usize> {
        columns.iter().copied().filter(|column| self.types[*column] == ty).collect()
    }

    pub(crate) fn literal(&mut self, ty: Type) -> Expr {
        let value = match ty {
            Type::Boolean => Value::Boolean(self.once_in(2)),
            Type::Long => Value::Long(self.chance.below(LONGS) as i64),
            Type::Text => Value::Text(self.pick(&TEXTS[..2]).to_owned()),
        };
        Expr::Literal(value, ty)
    }

    pub(crate) fn null(ty: Type) -> Expr {
        Expr::Literal(Value::Null, ty)
    }

    fn table(&mut self) -> Relation {
        let table = self.chance.below(3) as usize;
        let columns = [Type::Long, Type::Long, Type::Text].map(|ty| self.column(ty)).to_vec();
        Relation::Table { table, columns }
    }

    /// A relation of so many operators one above another, at most.
    pub(crate) fn relation(&mut self, depth: usize) -> Relation {
        if depth == 0 {
            let table = self.table();
            return if self.once_in(2) { self.filter(table) } else { table };
        }
        match self.chance.below(18) {
            16..=17 if depth > 1 => self.group_over_keys(depth),
            0..=1 => {
                let input = self.relation(depth - 1);
                self.filter(input)
            }
            2..=6 => self.join(depth),
            7..=9 => self.group(depth),
            10..=11 => self.window(depth),
            12 => self.union(depth),
            13 => {
                let input = self.relation(depth - 1);
                match self.once_in(2) {
                    true => Relation::Distinct { input: Box::new(input) },
                    false => self.project(input),
                }
            }
            14 => {
                let input = self.relation(depth - 1);
                match self.once_in(3) {
                    true => self.unnested(input),
                    false => {
                        let order = self.order_of_all(&input.columns());
                        let (limit, offset) =
                            (self.chance.below(8) as usize + 1, self.chance.below(3) as usize);
                        Relation::First { input: Box::new(input), order, limit, offset }
                    }
                }
            }
            _ => self.with(depth),
        }
    }

    fn filter(&mut self, input: Relation) -> Relation {
        let columns = input.columns();
        let mut conditions = vec![self.condition(&columns)];
        if self.once_in(3) {
            conditions.push(self.condition(&columns));
        }
        let condition = match conditions.len() {
            1 => conditions.remove(0),
            _ => Expr::And(conditions),
        };
        Relation::Filter { input: Box::new(input), condition }
    }

    /// Mostly one that fixes a column, or makes two equal.
    fn condition(&mut self, columns: &[usize]) -> Expr {
        let column = self.pick(columns);
        let ty = self.types[column];
        let alike = self.of_type(columns, ty);
        let own = Box::new(Expr::Column(column));
        match self.chance.below(12) {
            0..=5 => {
                self.fixed.push(column);
                Expr::Compare(Comparison::Equal, own, Box::new(self.literal(ty)))
            }
            6 => Expr::Compare(Comparison::Equal, own, Box::new(Expr::Column(self.pick(&alike)))),
            7 => Expr::IsNull { expr: own, negated: self.once_in(2) },
            8 if ty == Type::Long => {
                Expr::Compare(Comparison::LessOrEqual, own, Box::new(self.literal(Type::Long)))
            }
            8 => {
                Expr::InList { expr: own, values: vec![self.constant(ty), self.constant(ty)], negated: false }
            }
            9 => {
                let other =
                    Expr::Coalesce(Box::new(Expr::Column(self.pick(&alike))), Box::new(self.literal(ty)));
                Expr::Compare(Comparison::Equal, own, Box::new(other))
            }
            10 => Expr::Or(vec![
                Expr::Compare(Comparison::Equal, own.clone(), Box::new(self.literal(ty))),
                Expr::IsNull { expr: own, negated: false },
            ]),
            _ if self.with_subqueries => self.predicate(columns, 1),
            _ => Expr::Compare(Comparison::NotEqual, own, Box::new(self.literal(ty))),
        }
    }

    fn constant(&mut self, ty: Type) -> Value {
        match self.literal(ty) {
            Expr::Literal(value, _) => value,
            other => panic!("{other:?} is no literal"),
        }
    }

    /// Reduces the columns of a wide relation, so that statements stay readable.
    fn narrow(&mut self, input: Relation) -> Relation {
        if input.columns().len() <= COLUMNS_MAX { input } else { self.project(input) }
    }

    fn project(&mut self, input: Relation) -> Relation {
        let columns = input.columns();
        let count = 2 + self.chance.below(3);
        let items = (0..count).map(|_| {
            let column = self.pick(&columns);
            let ty = self.types[column];
            let own = Expr::Column(column);
            let expr = match self.chance.below(8) {
                0 => self.literal(ty),
                1 => Expr::Coalesce(Box::new(own), Box::new(self.literal(ty))),
                2 if ty == Type::Long => Expr::Plus(Box::new(own), 1),
                3 => Expr::Case {
                    when: Box::new(self.condition(&columns)),
                    then: Box::new(own),
                    otherwise: Box::new(self.literal(ty)),
                },
                _ => return (own, self.image(column)),
            };
            (expr, self.column(ty))
        });
        let items = items.collect();
        Relation::Project { input: Box::new(input), items }
    }

    fn join(&mut self, depth: usize) -> Relation {
        let left = self.relation(depth - 1);
        let less = self.chance.below(depth as u64) as usize;
        let right = self.relation(less);
        let (left, right) = (self.narrow(left), self.narrow(right));
        let kind = self.pick(&[
            JoinKind::Inner,
            JoinKind::Left,
            JoinKind::Left,
            JoinKind::Right,
            JoinKind::Right,
            JoinKind::Full,
        ]);
        let (own, others) = (left.columns(), right.columns());
        let mut pairs = Vec::new();
        for column in &own {
            let alike = self.of_type(&others, self.types[*column]);
            pairs.extend(alike.into_iter().map(|other| (*column, other)));
        }
        let on = match pairs.is_empty() {
            true => Expr::Literal(Value::Boolean(true), Type::Boolean),
            false => {
                let (one, other) = self.pick(&pairs);
                // A join without an equation is another operator.
                let comparison = match self.once_in(6) {
                    true => Comparison::Less,
                    false => Comparison::Equal,
                };
                Expr::Compare(comparison, Box::new(Expr::Column(one)), Box::new(Expr::Column(other)))
            }
        };
        let on = match self.once_in(5) {
            true => {
                let side = if self.once_in(2) { &own } else { &others };
                let column = self.pick(side);
                let fixed = Expr::Compare(
                    Comparison::Equal,
                    Box::new(Expr::Column(column)),
                    Box::new(self.literal(self.types[column])),
                );
                Expr::And(vec![on, fixed])
            }
            false => on,
        };
        let join = Relation::Join { kind, left: Box::new(left), right: Box::new(right), on };
        self.narrow(join)
    }

    fn aggregate(&mut self, columns: &[usize]) -> (Aggregate, usize) {
        let longs = self.of_type(columns, Type::Long);
        let column = self.pick(columns);
        let (function, ty) = match self.chance.below(6) {
            0 => (Aggregate::Count(Expr::Column(column)), Type::Long),
            1 => (Aggregate::CountDistinct(Expr::Column(column)), Type::Long),
            2 if !longs.is_empty() => (Aggregate::Sum(Expr::Column(self.pick(&longs))), Type::Long),
            3 => (Aggregate::Min(Expr::Column(column)), self.types[column]),
            4 => (Aggregate::Max(Expr::Column(column)), self.types[column]),
            _ => (Aggregate::Rows, Type::Long),
        };
        (function, self.column(ty))
    }

    fn some_columns(&mut self, columns: &[usize], count: u64) -> Vec<usize> {
        let mut some = Vec::new();
        for _ in 0..count {
            let column = self.pick_key(columns);
            if !some.contains(&column) {
                some.push(column);
            }
        }
        some
    }

    fn group(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth - 1);
        let columns = input.columns();
        let count = 1 + self.chance.below(3);
        let keys = self.some_columns(&columns, count);
        let keys = keys.into_iter().map(|key| (Expr::Column(key), self.image(key))).collect();
        let grouping =
            self.pick(&[Grouping::Plain, Grouping::Plain, Grouping::Rollup, Grouping::Cube, Grouping::Sets]);
        let aggregates = (0..1 + self.chance.below(2)).map(|_| self.aggregate(&columns)).collect();
        let mut group = Relation::Group { input: Box::new(input), grouping, keys, aggregates, having: None };
        if self.once_in(5) {
            let own = group.columns();
            let condition = self.condition(&own);
            if let Relation::Group { having, .. } = &mut group {
                *having = Some(condition);
            }
        }
        group
    }

    /// Groups by the key of grouped rows and by a column that they are joined with: the key is none any more.
    fn group_over_keys(&mut self, depth: usize) -> Relation {
        let inner = self.relation(depth - 2);
        let key = self.pick(&inner.columns());
        let ty = self.types[key];
        let grouped = Relation::Group {
            input: Box::new(inner),
            grouping: Grouping::Plain,
            keys: vec![(Expr::Column(key), self.column(ty))],
            aggregates: vec![(Aggregate::Rows, self.column(Type::Long))],
            having: None,
        };
        let table = self.table();
        let (own, others) = (grouped.columns()[0], table.columns());
        let alike = self.of_type(&others, ty);
        let other = self.pick(&alike);
        let on = Expr::Compare(Comparison::Equal, Box::new(Expr::Column(own)), Box::new(Expr::Column(other)));
        let kind = self.pick(&[JoinKind::Inner, JoinKind::Left]);
        let join = Relation::Join { kind, left: Box::new(grouped), right: Box::new(table), on };
        let keys = [own, self.pick(&others)];
        let keys = keys.into_iter().map(|key| (Expr::Column(key), self.image(key))).collect();
        let aggregates = vec![self.aggregate(&join.columns())];
        Relation::Group { input: Box::new(join), grouping: Grouping::Plain, keys, aggregates, having: None }
    }

    fn key(&mut self, column: usize) -> Key {
        let descending = self.once_in(2);
        let nulls_first = if self.once_in(2) { descending } else { self.once_in(2) };
        Key { expr: Expr::Column(column), descending, nulls_first }
    }

    /// All columns in some order.
    fn order_of_all(&mut self, columns: &[usize]) -> Vec<Key> {
        let mut left = columns.to_vec();
        let mut keys = Vec::new();
        while !left.is_empty() {
            let column = left.remove(self.chance.below(left.len() as u64) as usize);
            keys.push(self.key(column));
        }
        keys
    }

    /// A random order by some of the columns.
    pub(crate) fn some_order(&mut self, columns: &[usize]) -> Vec<Key> {
        let count = 1 + self.chance.below(3);
        let columns = self.some_columns(columns, count);
        columns.into_iter().map(|column| self.key(column)).collect()
    }

    fn window(&mut self, depth: usize) -> Relation {
        let input = self.relation(depth - 1);
        let columns = input.columns();
        let count = self.chance.below(3);
        let partition = self.some_columns(&columns, count).into_iter().map(Expr::Column).collect();
        let (function, order, ty) = match self.chance.below(6) {
            0 => (WindowFunction::RowNumber, self.order_of_all(&columns), Type::Long),
            1 => (WindowFunction::Rank, self.some_order(&columns), Type::Long),
            2 => (WindowFunction::DenseRank, self.some_order(&columns), Type::Long),
            _ => {
                let (function, column) = loop {
                    let (function, column) = self.aggregate(&columns);
                    // DISTINCT in a window is refused.
                    if !matches!(function, Aggregate::CountDistinct(_)) {
                        break (function, column);
                    }
                };
                let order = if self.once_in(3) { Vec::new() } else { self.some_order(&columns) };
                (WindowFunction::Aggregate(function), order, self.types[column])
            }
        };
        let column = self.column(ty);
        let window = Relation::Window { input: Box::new(input), function, partition, order, column };
        self.narrow(window)
    }

    fn union(&mut self, depth: usize) -> Relation {
        let left = self.relation(depth - 1);
        let types: Vec<Type> = left.columns().iter().map(|column| self.types[*column]).collect();
        let right = self.relation(depth - 1);
        let others = right.columns();
        let items = types.iter().map(|ty| {
            let alike = self.of_type(&others, *ty);
            let expr = match alike.is_empty() || self.once_in(4) {
                true if self.once_in(3) => Self::null(*ty),
                true => self.literal(*ty),
                false => Expr::Column(self.pick(&alike)),
            };
            (expr, self.column(*ty))
        });
        let items = items.collect();
        let right = Relation::Project { input: Box::new(right), items };
        let columns = left.columns().into_iter().map(|column| self.image(column)).collect();
        Relation::Union { left: Box::new(left), right: Box::new(right), columns }
    }

    fn unnested(&mut self, input: Relation) -> Relation {
        let columns = input.columns();
        let keys = self.some_columns(&columns, 2);
        let keys = keys.into_iter().map(|key| (Expr::Column(key), self.image(key))).collect();
        let list = self.pick(&columns);
        let column = self.column(self.types[list]);
        Relation::Unnested { input: Box::new(input), keys, list: Expr::Column(list), column }
    }

    /// A query of the WITH clause, which others may read too.
    fn with(&mut self, depth: usize) -> Relation {
        let name = match self.named.is_empty() || self.once_in(2) {
            true => {
                let definition = self.relation(depth - 1);
                self.named.push(definition);
                self.named.len() - 1
            }
            false => self.chance.below(self.named.len() as u64) as usize,
        };
        let definition = self.named[name].clone();
        let columns = definition.columns().into_iter().map(|column| self.image(column)).collect();
        Relation::Named { name, definition: Box::new(definition), columns }
    }

    /// A relation with a condition that has subqueries: in WHERE, in the list of columns, in an aggregate, in HAVING, in ON.
    pub(crate) fn with_predicate(&mut self) -> Relation {
        let input = self.relation(0);
        let columns = input.columns();
        let depth = self.chance.below(3) as usize;
        match self.chance.below(8) {
            0..=3 => {
                let mut condition = self.predicate(&columns, depth);
                if self.once_in(3) {
                    condition = Expr::And(vec![self.condition(&columns), condition]);
                }
                Relation::Filter { input: Box::new(input), condition }
            }
            4..=5 => {
                let mut items: Vec<(Expr, usize)> = Vec::new();
                for column in &columns {
                    items.push((Expr::Column(*column), self.column(self.types[*column])));
                }
                let predicate = self.predicate(&columns, depth);
                let item = match self.once_in(3) {
                    true => {
                        let case = Expr::Case {
                            when: Box::new(predicate),
                            then: Box::new(self.literal(Type::Text)),
                            otherwise: Box::new(Self::null(Type::Text)),
                        };
                        (case, self.column(Type::Text))
                    }
                    false => (predicate, self.column(Type::Boolean)),
                };
                items.push(item);
                Relation::Project { input: Box::new(input), items }
            }
            6 => {
                let key = self.pick(&columns);
                let keys = vec![(Expr::Column(key), self.column(self.types[key]))];
                let counted = Expr::Case {
                    when: Box::new(self.predicate(&columns, depth)),
                    then: Box::new(self.literal(Type::Long)),
                    otherwise: Box::new(Self::null(Type::Long)),
                };
                let aggregates = vec![
                    (Aggregate::Rows, self.column(Type::Long)),
                    (Aggregate::Count(counted), self.column(Type::Long)),
                ];
                let own = [keys[0].1, aggregates[0].1];
                let having = if self.once_in(2) { Some(self.predicate(&own, depth)) } else { None };
                Relation::Group {
                    input: Box::new(input),
                    grouping: Grouping::Plain,
                    keys,
                    aggregates,
                    having,
                }
            }
            _ => {
                let right = self.table();
                let kind = self.pick(&[JoinKind::Inner, JoinKind::Inner, JoinKind::Left, JoinKind::Right]);
                let others = right.columns();
                let equation = Expr::Compare(
                    Comparison::Equal,
                    Box::new(Expr::Column(columns[0])),
                    Box::new(Expr::Column(others[0])),
                );
                let side = if self.once_in(2) { &columns } else { &others };
                let on = Expr::And(vec![equation, self.predicate(side, depth)]);
                Relation::Join { kind, left: Box::new(input), right: Box::new(right), on }
            }
        }
    }

    /// A condition with subqueries, which may use the given columns.
    pub(crate) fn predicate(&mut self, columns: &[usize], depth: usize) -> Expr {
        match self.chance.below(if depth == 0 { 9 } else { 14 }) {
            0..=4 => self.membership(columns),
            5..=6 => {
                let query = Box::new(self.subquery(columns));
                Expr::Exists { query, negated: self.once_in(2) }
            }
            7 => self.quantified(columns),
            8 => {
                let column = self.pick(columns);
                Expr::Compare(
                    Comparison::Equal,
                    Box::new(Expr::Column(column)),
                    Box::new(self.literal(self.types[column])),
                )
            }
            9 => Expr::Not(Box::new(self.predicate(columns, depth - 1))),
            10 => {
                Expr::IsNull { expr: Box::new(self.predicate(columns, depth - 1)), negated: self.once_in(2) }
            }
            11 => Expr::Case {
                when: Box::new(self.predicate(columns, depth - 1)),
                then: Box::new(self.literal(Type::Boolean)),
                otherwise: Box::new(self.predicate(columns, depth - 1)),
            },
            chain => {
                let exprs = vec![self.predicate(columns, depth - 1), self.predicate(columns, depth - 1)];
                if chain == 12 { Expr::And(exprs) } else { Expr::Or(exprs) }
            }
        }
    }

    /// A column, a constant or a null.
    fn operand(&mut self, columns: &[usize]) -> (Expr, Type) {
        let column = self.pick(columns);
        let ty = self.types[column];
        match self.chance.below(8) {
            0..=1 => (self.literal(ty), ty),
            2 if self.once_in(2) => (Self::null(ty), ty),
            3 if ty == Type::Long => (Expr::Plus(Box::new(Expr::Column(column)), 1), ty),
            4 => (Expr::Coalesce(Box::new(Expr::Column(column)), Box::new(self.literal(ty))), ty),
            5 if self.once_in(3) => {
                let query = self.subquery(columns);
                let (function, value) = self.aggregate(&query.columns());
                let query = Relation::Group {
                    input: Box::new(query),
                    grouping: Grouping::Plain,
                    keys: Vec::new(),
                    aggregates: vec![(function, value)],
                    having: None,
                };
                (Expr::Scalar(Box::new(query)), self.types[value])
            }
            _ => (Expr::Column(column), ty),
        }
    }

    fn membership(&mut self, columns: &[usize]) -> Expr {
        let count = if self.once_in(6) { 2 } else { 1 };
        let (mut exprs, mut types) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let (expr, ty) = self.operand(columns);
            exprs.push(expr);
            types.push(ty);
        }
        let query = self.subquery(columns);
        let others = query.columns();
        let items = types.iter().map(|ty| {
            let alike = self.of_type(&others, *ty);
            let expr = match alike.is_empty() || self.once_in(10) {
                true => self.literal(*ty),
                false => Expr::Column(self.pick(&alike)),
            };
            (expr, self.column(*ty))
        });
        let items = items.collect();
        let query = Box::new(Relation::Project { input: Box::new(query), items });
        Expr::In { exprs, query, negated: !self.once_in(3) }
    }

    fn quantified(&mut self, columns: &[usize]) -> Expr {
        let (expr, ty) = self.operand(columns);
        let query = self.subquery(columns);
        let alike = self.of_type(&query.columns(), ty);
        let item = match alike.is_empty() {
            true => self.literal(ty),
            false => Expr::Column(self.pick(&alike)),
        };
        let items = vec![(item, self.column(ty))];
        let query = Box::new(Relation::Project { input: Box::new(query), items });
        let comparison = self.pick(&[
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ]);
        let quantifier = self.pick(&[Quantifier::Any, Quantifier::All]);
        Expr::Quantified { expr: Box::new(expr), comparison, quantifier, query }
    }

    /// A table, grouped or filtered perhaps, often by a column of the outer query.
    fn subquery(&mut self, outer: &[usize]) -> Relation {
        let mut query = self.table();
        let columns = query.columns();
        if self.once_in(2) {
            let own = self.pick(&columns);
            let alike = self.of_type(outer, self.types[own]);
            let condition = match alike.is_empty() || self.once_in(3) {
                true => self.condition(&columns),
                false => {
                    let comparison = self.pick(&[
                        Comparison::Equal,
                        Comparison::Equal,
                        Comparison::Equal,
                        Comparison::Less,
                        Comparison::NotEqual,
                    ]);
                    let outer = self.pick(&alike);
                    Expr::Compare(comparison, Box::new(Expr::Column(own)), Box::new(Expr::Column(outer)))
                }
            };
            query = Relation::Filter { input: Box::new(query), condition };
        }
        query
    }
}
