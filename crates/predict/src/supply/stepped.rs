//! Lower bound of the supply-bound function. It uses the window lengths that were requested so far,
//! so it needs no pass over all gaps.

use response_time_analysis::supply::SupplyBound;
use response_time_analysis::time::{Duration, Service};

use super::measured::{MeasuredSupply, NEVER_NS};

/// Supply-bound function whose values are [`MeasuredSupply::at_least_ns`].
#[derive(Debug)]
pub struct SupplySteps<'a>(&'a MeasuredSupply<'a>);

impl MeasuredSupply<'_> {
    /// Returns the lower bound that follows from the window lengths that were requested so far.
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
