//! Answers the queries that `psql` sends for `\d`, `\dt`, `\d name`, `\l`, `\dn` and `\du`.
//!
//! `psql` reads PostgreSQL's own tables, which do not exist here, with a few query texts that vary only in a pattern or a
//! number. This module recognises them by the columns that they select, and answers from the objects of the engine. Any
//! other query of `pg_catalog` fails like one of a table that does not exist. Queries for indexes, policies, publications
//! and the like return no rows, because there are none.

use swiftwater_sql::{Sql, SqlError, TableKind, not_all_known, type_name};

/// The first number that is not PostgreSQL's own.
const OID_MIN: u32 = 16_384;

/// Tables of PostgreSQL that have no rows here.
const ABSENT: [&str; 12] = [
    "pg_constraint",
    "pg_foreign_table",
    "pg_index",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_publication",
    "pg_rewrite",
    "pg_sequence",
    "pg_statistic_ext",
    "pg_subscription",
    "pg_trigger",
];

/// The query that answers in place of the one that was asked; none if that is no question of `psql`'s.
pub(super) async fn instead(text: &str, sql: &Sql) -> Result<Option<String>, SqlError> {
    if !text.contains("pg_catalog.pg_") {
        return Ok(None);
    }
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some(of_one) = ONLY.iter().find(|one| words.starts_with(one.begins)) {
        return Ok(Some(of_one.row(text)));
    }
    let mut tables = sql.tables().names();
    tables.sort();
    Ok(if text.contains("n.nspname as \"Schema\"") && text.contains("c.relname as \"Name\"") {
        if !sql.tables().names_all() {
            return Err(not_all_known());
        }
        Some(list(text, &tables))
    } else if text.starts_with("SELECT c.oid,") && text.contains("c.relname") {
        Some(found(text, &tables))
    } else if text.starts_with("SELECT c.relchecks,") {
        named(text, "c.oid = '", &tables).map(|(_, kind)| about(kind))
    } else if text.starts_with("SELECT a.attname,") {
        match named(text, "a.attrelid = '", &tables) {
            None => None,
            Some((name, _)) => Some(columns(text, name, sql).await?),
        }
    } else if ABSENT.iter().any(|table| text.contains(&format!("pg_catalog.{table}"))) {
        Some("SELECT NULL AS none WHERE false".to_owned())
    } else {
        None
    })
}

/// A list of the one thing of its kind that there is.
struct Only {
    /// The beginning of the question, with any space between its words.
    begins: &'static str,
    /// PostgreSQL's column for the name.
    column: &'static str,
    name: &'static str,
    /// The other columns.
    others: &'static [(&'static str, &'static str)],
}

/// `\l`, `\dn` and `\du`.
const ONLY: [Only; 3] = [
    Only {
        begins: "SELECT d.datname as \"Name\"",
        column: "d.datname",
        name: "swiftwater",
        others: &[("Owner", "swiftwater"), ("Encoding", "UTF8"), ("Collate", "C"), ("Ctype", "C")],
    },
    Only {
        begins: "SELECT n.nspname AS \"Name\"",
        column: "n.nspname",
        name: "public",
        others: &[("Owner", "swiftwater")],
    },
    Only {
        begins: "SELECT r.rolname, r.rolsuper, r.rolinherit, r.rolcreaterole",
        column: "r.rolname",
        name: "swiftwater",
        others: &ROLE,
    },
];

/// The role's attributes in the order in which `psql` reads them: it may do everything except replication. Two are there
/// only where they are asked for.
const ROLE: [(&str, &str); 11] = [
    ("rolsuper", "t"),
    ("rolinherit", "t"),
    ("rolcreaterole", "f"),
    ("rolcreatedb", "f"),
    ("rolcanlogin", "t"),
    ("rolconnlimit", "-1"),
    ("rolvaliduntil", ""),
    ("memberof", "{}"),
    ("description", ""),
    ("rolreplication", "f"),
    ("rolbypassrls", "f"),
];

impl Only {
    fn row(&self, text: &str) -> String {
        let is_asked = |name: &str| !matches!(name, "memberof" | "description") || text.contains(name);
        let others: Vec<_> = self.others.iter().filter(|(name, _)| is_asked(name)).collect();
        let columns: Vec<&str> =
            std::iter::once("Name").chain(others.iter().map(|(name, _)| *name)).collect();
        let values: Vec<String> =
            std::iter::once(self.name).chain(others.iter().map(|(_, value)| *value)).map(quoted).collect();
        let none = format!("({})", vec!["''"; columns.len()].join(", "));
        let row = format!("({})", values.join(", "));
        matching(text, (self.column, "\"Name\""), &columns, &none, std::iter::once(row))
    }
}

type Names = [(String, TableKind)];

/// `\d`, `\dt`, `\dv`, with a pattern or without.
fn list(text: &str, tables: &Names) -> String {
    let wanted =
        text.split_once("c.relkind IN (").map_or("", |(_, rest)| rest.split(')').next().unwrap_or_default());
    let rows = tables.iter().filter(|(_, kind)| wanted.contains(&format!("'{}'", relkind(*kind))));
    let rows = rows.map(|(name, kind)| {
        let kind = match kind {
            TableKind::Stream => "stream",
            TableKind::Table => "table",
            TableKind::View => "view",
        };
        format!("('public', {}, '{kind}', 'swiftwater')", quoted(name))
    });
    matching(text, ("c.relname", "\"Name\""), &["Schema", "Name", "Type", "Owner"], "('', '', '', '')", rows)
}

/// The numbers of those whose names match.
fn found(text: &str, tables: &Names) -> String {
    let rows = tables.iter().map(|(name, _)| format!("({}, 'public', {})", oid(name), quoted(name)));
    matching(text, ("c.relname", "relname"), &["oid", "nspname", "relname"], "(0, '', '')", rows)
}

/// Rows of which the name, which PostgreSQL calls otherwise, matches what `psql` made of a pattern: `^(cli.*)$`. `none` is
/// a row that nothing has.
fn matching(
    text: &str,
    (column, name): (&str, &str),
    columns: &[&str],
    none: &str,
    rows: impl Iterator<Item = String>,
) -> String {
    let rows: Vec<String> = std::iter::once(none.to_owned()).chain(rows).collect();
    let columns: Vec<String> = columns.iter().map(|column| format!("\"{column}\"")).collect();
    let pattern = text.split_once(&format!("{column} OPERATOR(pg_catalog.~) '")).and_then(|(_, rest)| {
        let mut quotes = rest.match_indices('\'').map(|(at, _)| at).peekable();
        loop {
            let at = quotes.next()?;
            // A quote within is doubled.
            if quotes.next_if_eq(&(at + 1)).is_none() {
                break Some(&rest[..at]);
            }
        }
    });
    let matches = pattern.map_or_else(String::new, |pattern| format!(" AND {name} ~ '{pattern}'"));
    format!(
        "SELECT * FROM (VALUES {}) AS t({}) WHERE {name} <> ''{matches} ORDER BY {name}",
        rows.join(", "),
        columns.join(", ")
    )
}

/// The properties of a table, in the order in which `psql` reads them.
fn about(kind: TableKind) -> String {
    format!(
        "SELECT 0 AS relchecks, '{}' AS relkind, false AS relhasindex, false AS relhasrules, false AS relhastriggers, \
         false AS relrowsecurity, false AS relforcerowsecurity, false AS relhasoids, false AS relispartition, '' AS options, \
         0 AS reltablespace, '' AS reloftype, 'p' AS relpersistence, 'd' AS relreplident, NULL AS amname",
        relkind(kind)
    )
}

async fn columns(text: &str, name: &str, sql: &Sql) -> Result<String, SqlError> {
    let schema = sql.tables().described(name).await?;
    let fields = schema.iter().flat_map(|schema| schema.fields().iter());
    let rows = fields.enumerate().map(|(place, field)| {
        let ty = type_name(field.data_type()).to_lowercase();
        format!("({place}, {}, {}, {})", quoted(field.name()), quoted(&ty), !field.is_nullable())
    });
    let rows: Vec<String> = std::iter::once("(-1, '', '', false)".to_owned()).chain(rows).collect();
    // With `+`: how a column is stored and packed, its statistics, what is said of it.
    let more = match text.contains("a.attstorage") {
        true => ", 'p' AS attstorage, '' AS attcompression, NULL AS attstattarget, NULL AS description",
        false => "",
    };
    Ok(format!(
        "SELECT attname, format_type, NULL AS pg_get_expr, attnotnull, NULL AS attcollation, '' AS attidentity, \
         '' AS attgenerated{more} FROM (VALUES {}) AS t(place, attname, format_type, attnotnull) WHERE place >= 0 \
         ORDER BY place",
        rows.join(", ")
    ))
}

/// The table whose number stands behind this.
fn named<'a>(text: &str, before: &str, tables: &'a Names) -> Option<(&'a str, TableKind)> {
    let (_, rest) = text.split_once(before)?;
    let number: u32 = rest.split('\'').next()?.parse().ok()?;
    tables.iter().find(|(name, _)| oid(name) == number).map(|(name, kind)| (name.as_str(), *kind))
}

/// A number that a name has whatever else there is: FNV-1a, of 30 bits (Fowler, Noll and Vo).
fn oid(name: &str) -> u32 {
    let hash =
        name.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    OID_MIN + (hash >> 2)
}

fn relkind(kind: TableKind) -> char {
    match kind {
        TableKind::Stream | TableKind::Table => 'r',
        TableKind::View => 'v',
    }
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
