//! Bugs that can be planted, to show that the invariants find them. They live in what the simulation puts around the real
//! parts (disk, threads, connections), so that no build but this one knows of them.

macro_rules! bugs {
    ($($name:ident: $what:literal,)*) => {
        /// One planted bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Bug {
            $(#[doc = $what] $name,)*
        }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// Whether it can only be found where there are several servers.
            pub fn is_of_several_servers(self) -> bool {
                matches!(self, Self::ForwardsAgain | Self::ReadsWithoutAsking | Self::IgnoresSnapshots)
            }

            /// What goes wrong.
            pub fn what(self) -> &'static str {
                match self { $(Self::$name => $what,)* }
            }
        }
    };
}

bugs! {
    SkipsSync: "the disk says that a file is synced, and has not done so",
    SkipsNames: "the disk says that names are synced, and has not done so",
    LosesTailOnRestart: "the last synced sector of a file is gone after a restart",
    AcknowledgesEarly: "a request is answered when its entry is proposed",
    DeniesWhatIsWritten: "an entry of unknown fate is said not to be written",
    FreesRoomEarly: "room is free as soon as an allocation is asked to end",
    LosesEvents: "the last of several entries applied at once is not told to the controller",
    AppliesTwice: "the controller is told of an entry twice",
    LosesEvaluations: "a planner forgets an evaluation now and then",
    PlansWithoutClaims: "a planner claims nothing of what it plans",
    KeepsOldClaims: "claims are never settled",
    NeverTicks: "the controller never learns that time passes",
    NeverHangsUp: "the controller never learns that a session has ended",
    LosesStops: "agents are not told what is to end",
    LosesReports: "an agent does not report some ends",
    StartsTwice: "a restarted agent starts what still runs",
    StartsBeforeItWrites: "an agent starts tasks before it has written them down",
    StartsBeforePredecessorsEnd: "an agent does not wait for those whose room it was promised",
    ForgetsTombstones: "a restarted agent forgets what had ended",
    NeverStopsTasks: "an agent says that it stops tasks, and does not",
    StopsTasksWithoutServer: "an agent stops its tasks when its server is gone",
    TasksDieWithAgent: "tasks end with their agent",
    RunsOldVersions: "an agent runs the first version of a job that it has seen",
    LosesRecords: "a restarted agent finds only some of what it wrote down",
    ForwardsAgain: "a write that was handed to the leader, who has not answered, is handed over again",
    ReadsWithoutAsking: "a server answers default reads without asking whether it is behind",
    IgnoresSnapshots: "the controller is not told that a snapshot took the place of the state",
    StartsFromBackup: "a restarted server finds the disk of its last start",
}
