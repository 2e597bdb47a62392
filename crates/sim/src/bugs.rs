//! Bugs that can be planted, to show that the invariants find them. They live in what the simulation puts around the real
//! parts (disk, threads, connections), so that no build but this one knows of them.

macro_rules! bugs {
    ($($name:ident: $what:literal breaks $rules:literal,)*) => {
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

            /// How many servers there must be for it to be found.
            pub fn servers_min(self) -> usize {
                match self {
                    Self::ForwardsAgain
                    | Self::ReadsWithoutAsking
                    | Self::IgnoresSnapshots
                    | Self::FreshBeforeApplied
                    | Self::CountsHeartbeatsAsReports => 3,
                    // With fewer, a follower that hears the leader is a majority with it.
                    Self::IgnoresLeadersMajority => 5,
                    _ => 1,
                }
            }

            /// What goes wrong.
            pub fn what(self) -> &'static str {
                match self { $(Self::$name => $what,)* }
            }

            /// Whether a rule that is broken shows that the bug was found, and not another one.
            pub fn is_shown_by(self, violation: &str) -> bool {
                let rules = match self { $(Self::$name => $rules,)* };
                let rule = violation.split(' ').next().unwrap_or_default();
                rules.split(' ').any(|own| own == rule)
            }
        }
    };
}

bugs! {
    SkipsSync: "the disk says that a file is synced, and has not done so" breaks "I1 I2 I4 I17 R4",
    SkipsNames: "the disk says that names are synced, and has not done so" breaks "I1 I2 I4 I17 R4",
    LosesTailOnRestart: "the last synced sector of a file is gone after a restart" breaks "I1 I2 I4 I17 R4",
    AcknowledgesEarly: "a request is answered when its entry is proposed" breaks "I2 I3",
    DeniesWhatIsWritten: "an entry that is written is said not to be, now and then" breaks "I2",
    FreesRoomEarly: "room is free as soon as an allocation is asked to end" breaks "I7 I8 I13",
    LosesEvents: "the last of several entries applied at once is not told to the controller" breaks "I5",
    AppliesTwice: "the controller is told of an entry twice" breaks "I5",
    LosesObserved: "what was observed last is not told to those who follow, now and then" breaks "I5",
    LosesEvaluations: "a planner forgets an evaluation now and then" breaks "I10",
    PlansOnOldStates: "a planner plans on the state that it planned on before, which may lack the job" breaks "I7 I8 I9 I10 R4",
    PlansWithoutClaims: "a planner claims nothing of what it plans" breaks "I8 I9 R4",
    KeepsOldClaims: "claims are never settled" breaks "I10 R4",
    NeverTicks: "the controller never learns that time passes" breaks "I10 I12 R4",
    LosesStops: "agents are told that what is to end is to run" breaks "I7 I8 I10 R4",
    LosesReports: "an agent does not report some ends" breaks "I7 I10 R4",
    StartsTwice: "a restarted agent starts what still runs" breaks "I7",
    StartsBeforeItWrites: "an agent starts tasks before it has written them down" breaks "I7 I13 R4",
    StartsBeforePredecessorsEnd: "an agent does not wait for those whose room it was promised" breaks "I8",
    UsesOtherDevices: "an agent gives tasks the first device of its node, whichever they were granted" breaks "I8",
    PreemptsMore: "a plan that preempts takes one more, whatever its priority" breaks "I9",
    ForgetsTombstones: "a restarted agent forgets what had ended" breaks "I7",
    NeverStopsTasks: "an agent says that it stops tasks, and does not" breaks "I7 I8 I10 R4",
    StopsTasksWithoutServer: "an agent stops its tasks when its server is gone" breaks "I16 R22",
    EndsTasksInOutages: "an agent ends its tasks once it has heard no server for long" breaks "R22",
    TasksDieWithAgent: "tasks end with their agent" breaks "I16",
    LosesRollbacks: "a failed deployment is not undone" breaks "I14",
    RunsOldVersions: "an agent runs the first version of a job that it has seen" breaks "I6",
    LosesUpdates: "an agent does not take up what is new of what runs" breaks "I6",
    LosesRecords: "a restarted agent finds only some of what it wrote down" breaks "I7 I8 I13 R4",
    ForgetsExitCodes: "a restarted agent says that what has ended meanwhile has ended well" breaks "I13",
    ForgetsBeforeAcknowledged: "an agent forgets what has ended once it has reported it" breaks "I13",
    ForwardsAgain: "a write that was handed to the leader, who has not answered, is handed over again" breaks "I2",
    ReadsWithoutAsking: "a server answers default reads without asking whether it is behind" breaks "I3",
    IgnoresSnapshots: "the controller is not told that a snapshot took the place of the state" breaks "I5 R4",
    IgnoresLeadersMajority: "a follower calls its state as fresh as its leader is near, whomever that one hears" breaks "I3 R28",
    FreshBeforeApplied: "a follower that was away calls its state fresh before it has caught up" breaks "I3",
    CountsPausesAsSilence: "pauses of a server and steps of its clock count as silence of agents" breaks "R28",
    ComesBackLate: "an agent waits longer between two tries than a leader waits for it" breaks "R28",
    CountsHeartbeatsAsReports: "a heartbeat counts as a part of a report: no session ends that never reports what it owes" breaks "R4",
    CollectsByOldView: "garbage is collected as it was when it was looked for, whatever was registered since" breaks "I6",
    WritesOverStops: "a check-and-set does not see that its job was stopped meanwhile" breaks "I2",
    StartsFromBackup: "a restarted server finds the disk of its last start" breaks "I1 I2 I4 I17",
}
