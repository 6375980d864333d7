//! A job within a snapshot of the catalog, and the job that is read back from it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use swiftwater_event::Millis;
use swiftwater_lang::ddl::CreateJob;

use super::{JobEntry, JobRun, JobTotals};
use crate::CatalogError;

/// A job within a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JobSnapshot {
    id: u32,
    created: Millis,
    text: String,
    is_enabled: bool,
    covered: Millis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    covered_meanwhile: Option<Millis>,
    read_to: Vec<(u32, u64)>,
    runs: Vec<JobRun>,
    #[serde(default)]
    totals: JobTotals,
}

impl JobEntry {
    /// The state that a snapshot has.
    pub(crate) fn snapshot(&self) -> JobSnapshot {
        JobSnapshot {
            id: self.id,
            created: self.created,
            text: self.create.to_string(),
            is_enabled: self.is_enabled,
            covered: self.covered,
            covered_meanwhile: self.covered_meanwhile,
            read_to: self.read_to.iter().map(|(id, offset)| (*id, *offset)).collect(),
            runs: self.runs.iter().map(|run| JobRun::clone(run)).collect(),
            totals: self.totals,
        }
    }

    /// The job of a snapshot, whose statement was read.
    pub(crate) fn from_snapshot(snapshot: &JobSnapshot, create: CreateJob) -> Result<JobEntry, CatalogError> {
        let mut job = JobEntry::new(snapshot.id, create, snapshot.created)?;
        job.is_enabled = snapshot.is_enabled;
        job.read_to = snapshot.read_to.iter().copied().collect();
        job.runs = snapshot.runs.iter().cloned().map(Arc::new).collect();
        job.totals = snapshot.totals;
        job.cover(snapshot.covered);
        job.covered_meanwhile = snapshot.covered_meanwhile;
        job.find_due();
        Ok(job)
    }
}

impl JobSnapshot {
    /// Its statement.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::job::{
        JobStep,
        fixture::{hourly, run},
    };

    #[test]
    fn snapshot_and_steps_without_totals_are_read() {
        let mut job = hourly();
        run(&mut job, None, 1);
        let mut snapshot = serde_json::to_value(job.snapshot()).unwrap();
        snapshot.as_object_mut().unwrap().remove("totals");
        snapshot["runs"].as_array_mut().unwrap().iter_mut().for_each(|run| {
            run.as_object_mut().unwrap().remove("millis");
        });
        let snapshot: JobSnapshot = serde_json::from_value(snapshot).unwrap();
        assert_eq!(
            JobEntry::from_snapshot(&snapshot, job.create.clone()).unwrap().totals,
            JobTotals::default()
        );
        let step: JobStep = serde_json::from_str(r#"{"did":{"rows":3}}"#).unwrap();
        assert_eq!(step, JobStep::Did { rows: 3, millis: 0 });
    }
}
