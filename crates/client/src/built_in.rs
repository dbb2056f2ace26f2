//! The calls of the services Definitions, Approvals, Workers, Admin and Triggers.

use stateway_proto::v1;

use crate::{
    ApplyDefinition, Backup, Client, DecideApproval, DeleteDefinition, DisableTrigger,
    EnableTrigger, Error, GetApproval, GetDefinition, GetEscalation, GetQueue, ListApprovals,
    ListDefinitions, ListEscalations, ListWorkers, MigrateDefinition, PublishEvent,
    PurgeExecutions, ResolveEscalation, ValidateDefinition,
};

/// A read or a write: the generated method of a service.
macro_rules! make {
    ($self:ident.$how:ident($call:ident), $service:ident.$method:ident) => {
        $self
            .$how($call, |request| {
                let mut service = $self.$service();
                async move { service.$method(request).await }
            })
            .await
    };
}

/// Every method answers the [`Error`] that the gateway gave, or one about the way there.
#[allow(clippy::missing_errors_doc)]
impl Client {
    /// Makes a definition known, or a new revision of it the current one.
    pub async fn apply_definition(
        &self,
        call: ApplyDefinition,
    ) -> Result<v1::ApplyDefinitionResponse, Error> {
        make!(self.write(call), definitions.apply_definition)
    }

    /// Reads a definition.
    pub async fn definition(&self, call: GetDefinition) -> Result<v1::Definition, Error> {
        make!(self.read(call), definitions.get_definition)
    }

    /// Reads one page of definitions.
    pub async fn definitions_page(
        &self,
        call: ListDefinitions,
    ) -> Result<v1::ListDefinitionsResponse, Error> {
        make!(self.read(call), definitions.list_definitions)
    }

    /// Deletes a definition.
    pub async fn delete_definition(
        &self,
        call: DeleteDefinition,
    ) -> Result<v1::DeleteDefinitionResponse, Error> {
        make!(self.write(call), definitions.delete_definition)
    }

    /// Makes a provider the default of a definition.
    pub async fn migrate_definition(
        &self,
        call: MigrateDefinition,
    ) -> Result<v1::MigrateDefinitionResponse, Error> {
        make!(self.write(call), definitions.migrate_definition)
    }

    /// Checks a definition and says who can run it.
    pub async fn validate_definition(
        &self,
        call: ValidateDefinition,
    ) -> Result<v1::ValidateDefinitionResponse, Error> {
        make!(self.read(call), definitions.validate_definition)
    }

    /// Reads one page of approvals.
    pub async fn approvals_page(
        &self,
        call: ListApprovals,
    ) -> Result<v1::ListApprovalsResponse, Error> {
        make!(self.read(call), approvals.list_approvals)
    }

    /// Reads an approval and what is needed to decide.
    pub async fn approval(&self, call: GetApproval) -> Result<v1::Approval, Error> {
        make!(self.read(call), approvals.get_approval)
    }

    /// Decides about an approval, in the name of the client's caller.
    pub async fn decide_approval(&self, call: DecideApproval) -> Result<v1::Approval, Error> {
        make!(self.write(call), approvals.decide_approval)
    }

    /// Reads one page of escalations.
    pub async fn escalations_page(
        &self,
        call: ListEscalations,
    ) -> Result<v1::ListEscalationsResponse, Error> {
        make!(self.read(call), approvals.list_escalations)
    }

    /// Reads an escalation, every attempt of its step included.
    pub async fn escalation(&self, call: GetEscalation) -> Result<v1::Escalation, Error> {
        make!(self.read(call), approvals.get_escalation)
    }

    /// Decides about an escalation, in the name of the client's caller.
    pub async fn resolve_escalation(
        &self,
        call: ResolveEscalation,
    ) -> Result<v1::Escalation, Error> {
        make!(self.write(call), approvals.resolve_escalation)
    }

    /// Reads one page of workers.
    pub async fn workers_page(&self, call: ListWorkers) -> Result<v1::ListWorkersResponse, Error> {
        make!(self.read(call), workers.list_workers)
    }

    /// Reads what waits for a worker or for its turn.
    pub async fn queue(&self, call: GetQueue) -> Result<v1::Queue, Error> {
        make!(self.read(call), workers.get_queue)
    }

    /// Removes finished executions, or counts them. What was removed stays removed, so trying
    /// again is safe.
    pub async fn purge_executions(
        &self,
        call: PurgeExecutions,
    ) -> Result<v1::PurgeExecutionsResponse, Error> {
        make!(self.read(call), admin.purge_executions)
    }

    /// Copies a store into the backup directory. It is not tried again by itself: the file may be
    /// there by then.
    pub async fn backup(&self, call: Backup) -> Result<v1::BackupStoreResponse, Error> {
        let once = self.clone().without_retries();
        make!(once.read(call), admin.backup_store)
    }

    /// Publishes an event, which starts what it triggers. Without an id the event gets one, so that
    /// retries publish it once.
    pub async fn publish(&self, call: PublishEvent) -> Result<v1::PublishEventResponse, Error> {
        make!(self.write(call), triggers.publish_event)
    }

    /// Disables the trigger of a definition.
    pub async fn disable_trigger(&self, call: DisableTrigger) -> Result<v1::Trigger, Error> {
        make!(self.write(call), triggers.disable_trigger)
    }

    /// Enables the trigger of a definition.
    pub async fn enable_trigger(&self, call: EnableTrigger) -> Result<v1::Trigger, Error> {
        make!(self.write(call), triggers.enable_trigger)
    }
}
