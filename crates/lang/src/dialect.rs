//! The differences between the dialects, as a table of settings: the whole difference between Bullet's answers and native
//! ones.

/// The rules of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// Ours: `/v1/queries`, `swiftwater query`.
    #[default]
    Native,
    /// Bullet's own: `/api/bullet`, `--bullet`.
    Bullet,
}

impl Dialect {
    /// RAW results come as they match, not once at LIMIT or at the end.
    pub fn streams_raw(self) -> bool {
        self == Dialect::Native
    }

    /// Rows of a RAW query that states no LIMIT: `None` for all, when streaming.
    pub fn raw_limit_default(self) -> Option<u64> {
        match self {
            Dialect::Native => None,
            Dialect::Bullet => Some(100),
        }
    }

    /// The most rows that one RAW result can have, whatever LIMIT says.
    pub fn raw_limit_max(self) -> Option<u64> {
        match self {
            Dialect::Native => None,
            Dialect::Bullet => Some(100),
        }
    }

    /// The most groups in a result, whatever LIMIT says.
    pub fn groups_max(self) -> Option<u64> {
        match self {
            Dialect::Native => None,
            Dialect::Bullet => Some(500),
        }
    }

    /// The shortest distance of two windows by time, in milliseconds; shorter ones are made longer.
    pub fn window_ms_min(self) -> u64 {
        match self {
            Dialect::Native => 1,
            Dialect::Bullet => 1000,
        }
    }

    /// The last result of a query with windows is that of a window, also where none is open or nothing came.
    pub fn ends_with_window(self) -> bool {
        self == Dialect::Bullet
    }

    /// Group keys are text, a null key the text `null`.
    pub fn keys_are_text(self) -> bool {
        self == Dialect::Bullet
    }

    /// SUM, MIN and MAX are DOUBLE whatever they are taken of; text is parsed as a number.
    pub fn aggregates_are_double(self) -> bool {
        self == Dialect::Bullet
    }

    /// ORDER BY with LIMIT on RAW takes the first n and sorts them, rather than the true top n.
    pub fn sorts_first_n(self) -> bool {
        self == Dialect::Bullet
    }

    /// A value that cannot be had becomes null (and is counted), rather than staying an error to the end.
    pub fn errors_become_null(self) -> bool {
        self == Dialect::Native
    }

    /// Null columns of a RAW record are left out, rather than written as null.
    pub fn omits_null_columns(self) -> bool {
        self == Dialect::Bullet
    }

    /// `NOT` binds tighter than everything, rather than just above AND.
    pub fn not_binds_tightest(self) -> bool {
        self == Dialect::Bullet
    }

    /// A whole number in GROUP BY or ORDER BY names a column by its place, rather than being a constant.
    pub fn numbers_are_positions(self) -> bool {
        self == Dialect::Native
    }

    /// Strings compare by UTF-16 unit, rather than by UTF-8 byte (that is, by code point).
    pub fn compares_utf16(self) -> bool {
        self == Dialect::Bullet
    }

    /// True if whole numbers of events that fit 32 bits are INTEGER, rather than all LONG, and integer arithmetic
    /// wraps, rather than being an error on overflow.
    pub fn narrows_integers(self) -> bool {
        self == Dialect::Bullet
    }

    /// True if a type hint determines the type as which a path is wanted, rather than only the checks of its use.
    pub fn hints_convert(self) -> bool {
        self == Dialect::Native
    }

    /// Names of output columns match whatever their letter case if that is unique, rather than exactly.
    pub fn folds_names(self) -> bool {
        self == Dialect::Native
    }
}
