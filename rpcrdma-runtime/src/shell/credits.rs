use crate::proto::rdma::Config;
use crate::provider::ConnectionInfo;

/// Returns the configuration with its credits reduced to fit the Receives of the connection.
pub(super) fn fit_to_provider(config: Config, info: &ConnectionInfo) -> Config {
    // The forward and the backward engine each post one Receive beyond their credits.
    let max = info.receives.saturating_sub(2).max(2);
    if config.credits.saturating_add(config.backward_credits) <= max {
        return config;
    }
    let backward_credits = config.backward_credits.min(max / 2);
    let credits = config.credits.min(max - backward_credits);
    Config { credits, backward_credits, ..config }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credits_are_limited_by_the_receives() {
        let info = |receives| ConnectionInfo {
            local: None,
            peer: None,
            private_data: bytes::Bytes::new(),
            ord: 1,
            ird: 1,
            max_region: 1,
            receives,
            remote_invalidation: false,
            local_fence: false,
        };
        let config = Config { credits: 64, backward_credits: 16, ..Config::default() };
        let credits = |receives| {
            let config = fit_to_provider(config, &info(receives));
            (config.credits, config.backward_credits)
        };
        assert_eq!(credits(u32::MAX), (64, 16));
        assert_eq!(credits(82), (64, 16));
        assert_eq!(credits(81), (63, 16));
        assert_eq!(credits(22), (10, 10));
        assert_eq!(credits(0), (1, 1));
    }
}
