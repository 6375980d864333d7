//! Measured values, and their statistics.

/// Values in ascending order; at least one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Samples(Vec<f64>);

impl Samples {
    pub(crate) fn new(mut values: Vec<f64>) -> anyhow::Result<Samples> {
        anyhow::ensure!(!values.is_empty(), "nothing was measured");
        values.sort_by(f64::total_cmp);
        Ok(Samples(values))
    }

    /// The value below which `share` of them lie, nearest rank.
    pub(crate) fn quantile(&self, share: f64) -> f64 {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        self.0[rank.clamp(1, self.0.len()) - 1]
    }

    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        if self.0.len() % 2 == 1 { self.0[middle] } else { (self.0[middle - 1] + self.0[middle]) / 2.0 }
    }

    pub(crate) fn least(&self) -> f64 {
        self.0[0]
    }

    pub(crate) fn most(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_that_were_measured() {
        let samples = Samples::new((1..=1000).rev().map(f64::from).collect()).unwrap();
        assert_eq!(
            [0.5, 0.99, 0.999, 1.0].map(|share| samples.quantile(share)),
            [500.0, 990.0, 999.0, 1000.0]
        );
        assert_eq!((samples.median(), samples.least(), samples.most()), (500.5, 1.0, 1000.0));
        assert!(Samples::new(Vec::new()).is_err());
    }
}
