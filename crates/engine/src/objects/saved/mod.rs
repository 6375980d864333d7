//! Saved objects: queries, dashboards and notebooks under a name, and links to states of a page. They have no task; their state is the
//! catalog's, or is in memory where nothing is stored.

mod content;
mod ddl;

pub(crate) use content::check as check_content;
pub use content::{ContentError, ContentFault, DASHBOARD_SCHEMA, NOTEBOOK_SCHEMA, is_json, title_of};
pub(crate) use ddl::{DropSaved, check_saved_room};
