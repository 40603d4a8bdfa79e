//! Lower bound of the function from the lengths that were requested so far: it needs no pass over
//! all gaps for each length.

use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Service};

use super::measured::{MeasuredSupply, NEVER_NS};

/// [`MeasuredSupply::at_least_ns`] for all lengths.
#[derive(Debug)]
pub struct SupplySteps<'a>(&'a MeasuredSupply<'a>);

impl MeasuredSupply<'_> {
    /// Returns the lower bound from the lengths that were requested.
    pub fn stepped(&self) -> SupplySteps<'_> {
        SupplySteps(self)
    }
}

impl SupplyBound for SupplySteps<'_> {
    fn provided_service(&self, delta: Duration) -> Service {
        Service::from(self.0.at_least_ns(delta.into()))
    }

    fn service_time(&self, demand: Service) -> Duration {
        let length_ns = self.0.at_least_length_ns(demand.into());
        length_ns.unwrap_or(NEVER_NS).into()
    }
}
