//! Tests the first steps of a new user, on a machine without any tools.

pub mod system;

mod lab_full {
    mod newcomer {
        use std::collections::BTreeSet;

        use crate::newcomer::system::{System, package};

        /// The system has only `make`, Debian's essential packages, and the packages that apt needs
        /// for the network.
        #[test]
        fn make_run_reaches_its_page_on_a_machine_without_rust_and_kvm() {
            let system = System::bare(&["ca-certificates", "make"]);
            system.clone_repository();
            let before = packages(&system);
            let made = system.run("cd /vmnoise && make run");
            let reported = String::from_utf8_lossy(&made.stderr);
            assert!(made.status.success(), "{reported}");
            for words in [
                "the distribution's own",
                "run: set-up took ",
                "run: build took ",
                "/dev/kvm does not exist",
                "run: measure took ",
                "run: report took ",
            ] {
                assert!(reported.contains(words), "{words}: {reported}");
            }
            let result = String::from_utf8_lossy(&made.stdout);
            let place = result.lines().last().unwrap();
            assert!(
                place.starts_with("report: /vmnoise/target/report.html ("),
                "{result}"
            );
            system.succeeds("test -s /vmnoise/target/report.html");
            // The set-up printed the name of each package before its installation, and removed no
            // package.
            let named = reported.lines().filter_map(|line| {
                let (_, names) = line.split_once("vmnoise set-up: installing ")?;
                Some(names.split(' '))
            });
            let named: BTreeSet<String> = named.flatten().map(str::to_owned).collect();
            let after = packages(&system);
            let came: BTreeSet<String> = after.difference(&before).cloned().collect();
            assert!(!came.is_empty() && came.is_subset(&named), "{reported}");
            assert!(before.is_subset(&after), "{before:?} {after:?}");
        }

        fn packages(system: &System) -> BTreeSet<String> {
            let names = system.succeeds("dpkg-query --show --showformat '${Package}\\n'");
            names.lines().map(str::to_owned).collect()
        }

        #[test]
        fn the_package_installs_is_upgraded_and_leaves_nothing() {
            let system = System::bare(&[]);
            system.bring(&package(), "vmnoise.deb");
            let before = system.files();
            system.succeeds("dpkg --install /vmnoise.deb");
            let version = system.succeeds("vmnoise --version");
            assert!(version.starts_with("vmnoise "), "{version}");
            // `vmnoise serve` becomes the program next to it, which refuses this address.
            let refused = system.run("vmnoise serve --listen 0.0.0.0:0");
            let said = String::from_utf8_lossy(&refused.stderr);
            assert!(said.starts_with("vmnoise serve: "), "{said}");
            for file in [
                "/usr/share/man/man1/vmnoise-serve.1.gz",
                "/usr/share/bash-completion/completions/vmnoise",
                "/usr/lib/systemd/system/vmnoise-serve.service",
                "/usr/lib/systemd/system/vmnoise-serve.socket",
                "/usr/share/doc/vmnoise/copyright",
            ] {
                system.succeeds(&format!("test -s {file}"));
            }
            system.succeeds(
                "dpkg-deb --raw-extract /vmnoise.deb /newer && \
                 sed -i 's/^Version: .*/Version: 99.0/' /newer/DEBIAN/control && \
                 dpkg-deb --build /newer /newer.deb && dpkg --install /newer.deb && \
                 rm -r /newer /newer.deb",
            );
            let version = system.succeeds("dpkg-query --show --showformat '${Version}' vmnoise");
            assert_eq!(version, "99.0");
            system.succeeds("dpkg --purge vmnoise");
            assert_eq!(system.files(), before);
        }
    }
}
