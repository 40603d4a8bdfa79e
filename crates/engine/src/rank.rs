//! Rank of this process in a parallel program, as its launcher gives it.

/// Variables in which launchers store the rank. `PMIx` comes first: under `mpirun` within a Slurm
/// step, `SLURM_PROCID` is the rank of Open MPI's daemon. (OpenPMIx' src/server/pmix_server.c, Open
/// MPI 4.1's orte/mca/schizo/ompi/schizo_ompi.c, srun(1).)
const VARIABLES: [&str; 3] = ["PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];

/// Returns the number from the first of `VARIABLES` that holds a number.
pub fn rank(variable: impl Fn(&str) -> Option<String>) -> Option<u32> {
    let said = VARIABLES.iter().filter_map(|name| variable(name));
    said.filter_map(|text| text.parse().ok()).next()
}

#[cfg(test)]
mod tests {
    use super::rank;

    fn rank_among(variables: &[(&str, &str)]) -> Option<u32> {
        rank(|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn each_launcher_is_understood_and_the_innermost_counts() {
        assert_eq!(rank_among(&[]), None);
        assert_eq!(rank_among(&[("SLURM_PROCID", "7")]), Some(7));
        assert_eq!(rank_among(&[("OMPI_COMM_WORLD_RANK", "0")]), Some(0));
        let nested = [("SLURM_PROCID", "0"), ("PMIX_RANK", "1000000")];
        assert_eq!(rank_among(&nested), Some(1_000_000));
    }

    #[test]
    fn what_is_no_rank_is_none() {
        assert_eq!(rank_among(&[("PMIX_RANK", "-1")]), None);
        let wildcard = [("PMIX_RANK", "4294967296"), ("SLURM_PROCID", "3")];
        assert_eq!(rank_among(&wildcard), Some(3));
    }
}
