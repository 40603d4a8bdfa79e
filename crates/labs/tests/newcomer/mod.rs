//! What a newcomer does first, on a machine that has nothing.

pub mod system;

mod lab_full {
    mod newcomer {
        use crate::newcomer::system::{System, package};

        /// `make` alone is added to what Debian calls essential, and what apt needs for the network.
        #[test]
        fn make_run_builds_on_a_machine_without_rust_and_says_that_it_has_no_kvm() {
            let system = System::bare(&["ca-certificates", "make"]);
            system.clone_repository();
            let made = system.run("cd /vmnoise && make run");
            let reported = String::from_utf8_lossy(&made.stderr);
            assert!(reported.contains("the distribution's own"), "{reported}");
            assert!(reported.contains("/dev/kvm"), "{reported}");
            let program = "$(ls /vmnoise/target/*/release/vmnoise)";
            let version = system.run(&format!("{program} --version"));
            assert!(version.stdout.starts_with(b"vmnoise "), "{reported}");
            // What is missing is reported by a status of its own, which make passes on as a number.
            assert!(reported.contains("Error 3"), "{reported}");
        }

        #[test]
        fn the_package_installs_is_upgraded_and_leaves_nothing() {
            let system = System::bare(&[]);
            system.bring(&package(), "vmnoise.deb");
            let before = system.files();
            system.succeeds("dpkg --install /vmnoise.deb");
            let version = system.succeeds("vmnoise --version");
            assert!(version.starts_with("vmnoise "), "{version}");
            // It becomes the program that lies beside it, which refuses this.
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
