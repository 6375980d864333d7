//! Statements over jobs, and the steps of their runs.

use swiftwater_event::Millis;
use swiftwater_lang::ddl::CreateJob;

use crate::{Catalog, CatalogError, ObjectKind, kind::job::JobEntry};

impl Catalog {
    /// All jobs, by name.
    pub fn jobs(&self) -> impl ExactSizeIterator<Item = &JobEntry> {
        self.jobs.values()
    }

    /// Moves the time of all jobs on, as changes of the log do.
    pub fn jobs_see_time(&mut self, now: Millis) {
        self.jobs.values_mut().for_each(|job| job.see_time(now));
    }

    /// A job of a name; an error if there is none.
    pub fn job(&self, name: &str) -> Result<&JobEntry, CatalogError> {
        self.jobs.get(name).ok_or_else(|| CatalogError::not_found(ObjectKind::Job, name))
    }

    /// The job of a number, if it was not dropped.
    pub fn job_of(&self, id: u32) -> Option<&JobEntry> {
        self.jobs.values().find(|job| job.id == id)
    }

    pub(crate) fn create_job(&mut self, create: &CreateJob, at: Millis) -> Result<bool, CatalogError> {
        if self.jobs.contains_key(&create.name) {
            return CatalogError::unless(create.if_not_exists, ObjectKind::Job, &create.name);
        }
        let create = CreateJob { if_not_exists: false, ..create.clone() };
        let job = JobEntry::new(self.next_job, create, at)?;
        self.next_job += 1;
        self.jobs.insert(job.create.name.clone(), job);
        Ok(true)
    }

    pub(crate) fn drop_job(&mut self, name: &str, if_exists: bool) -> Result<bool, CatalogError> {
        match self.jobs.remove(name) {
            None if !if_exists => Err(CatalogError::not_found(ObjectKind::Job, name)),
            removed => Ok(removed.is_some()),
        }
    }
}
