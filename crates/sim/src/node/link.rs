//! The agent's connection: which server it dials, when it says hello, and what it makes of what it hears.

use std::time::Duration;

use berth_agent::lifecycle::{Event, TaskRef};
use berth_api::agent::{
    AgentSession, Down, DownFrame, FRAME_BYTES_MAX, SessionAction, Up, UpFrame, Welcome, decode_frame,
    encode_frame,
};
use berth_controller::GRACE_MIN;
use bytes::{Bytes, BytesMut};

use super::{
    shell::{Agent, AgentDied, clock_ns},
    spec, story,
};
use crate::{
    bugs::Bug,
    executor::{now_ns, random_u64},
    network::Host,
};

/// What a planted bug takes for a long silence, in nanoseconds.
const LONG_SILENCE_NS: u64 = 20_000_000_000;

impl Agent {
    /// Dials a server when it is time to, or says hello again on the connection there is.
    pub(super) fn dial(&mut self) {
        if self.link.is_some() {
            if self.habits.again_at_ns().is_some_and(|at_ns| at_ns <= now_ns()) {
                self.say_hello();
            }
            return;
        }
        if now_ns() < self.dial_at_ns {
            return;
        }
        let server = self.next_server();
        self.is_answered = false;
        match self.env.network.dial(Host::Node(self.env.number), Host::Server(server)) {
            Ok(link) => {
                self.link = Some(link);
                self.habits.begin();
                self.say_hello();
            }
            Err(_) => self.dial_later(),
        }
    }

    fn say_hello(&mut self) {
        if self.habits.says_hello() {
            self.log_line("says hello again on the same connection");
            self.env.truth.count("hellos said again on a connection");
        }
        let hello = self.session.hello(&self.identity, spec(self.env.number), clock_ns());
        self.say(Up::Hello(hello));
    }

    fn log_line(&self, what: &str) {
        self.env.truth.log_line(&format!("node {}: {what}", self.env.number + 1));
    }

    /// Any that was not dialed yet; once all were, any but the last one, unless there is no other.
    fn next_server(&mut self) -> usize {
        if self.dialed.len() >= self.env.servers {
            self.dialed.drain(..self.dialed.len() - 1);
        }
        let mut left: Vec<usize> = (0..self.env.servers).collect();
        left.retain(|server| self.env.servers == 1 || !self.dialed.contains(server));
        let server = left[random_u64() as usize % left.len()];
        self.dialed.push(server);
        server
    }

    fn dial_later(&mut self) {
        self.dial_at_ns = now_ns() + self.pause_ns();
    }

    /// Before it tries again.
    fn pause_ns(&mut self) -> u64 {
        let random = random_u64();
        let pause = match self.is_answered {
            true => self.retry.after_answer(random),
            false => self.retry.next_of(self.env.servers, random),
        };
        let late = match self.env.bug {
            Some(Bug::ComesBackLate) => GRACE_MIN,
            _ => Duration::ZERO,
        };
        (pause + late).as_nanos() as u64
    }

    /// The session has ended: most agents hang up, and some stay and say hello again.
    fn leave(&mut self) {
        let pause_ns = self.pause_ns();
        if self.habits.stays(pause_ns) {
            self.session.disconnected();
        } else {
            self.hang_up();
        }
    }

    pub(super) fn hang_up(&mut self) {
        self.log_line("hangs up");
        self.link = None;
        self.session.disconnected();
        self.dial_later();
        if self.env.bug == Some(Bug::StopsTasksWithoutServer) {
            let running: Vec<TaskRef> = self.watched.keys().copied().collect();
            for of in running {
                self.env.truth.signalled(self.env.number, of, false);
                self.env.machine.stop(of);
            }
        }
    }

    /// Of a planted bug: after a long silence of servers tasks are ended, whatever their groups say.
    pub(super) fn end_tasks_after_silence(&self) {
        let silent_ns = now_ns().saturating_sub(self.env.machine.content().heard_ns);
        if self.env.bug == Some(Bug::EndsTasksInOutages) && silent_ns > LONG_SILENCE_NS {
            self.watched.keys().for_each(|of| self.env.machine.stop(*of));
        }
    }

    fn say(&mut self, message: Up) {
        if let Some(line) = story::up(&message) {
            self.log_line(&line);
        }
        let mut out = BytesMut::new();
        encode_frame(&UpFrame { session: 0, message: Some(message) }, &mut out);
        if self.link.as_ref().is_some_and(|link| link.send(out.freeze()).is_err()) {
            self.hang_up();
        }
    }

    pub(super) fn speak(&mut self) {
        if self.session.is_deserted(clock_ns()) {
            return self.hang_up();
        }
        if self.habits.silent_until_ns().is_some() {
            return;
        }
        while self.link.is_some() {
            let Some(up) = self.session.poll(clock_ns()) else { return };
            self.say(up);
        }
    }

    pub(super) fn hear(&mut self, frame: &Bytes) -> Result<(), AgentDied> {
        let mut bytes = BytesMut::from(&frame[..]);
        let Ok(Some(DownFrame { message: Some(message), .. })) = decode_frame(&mut bytes, FRAME_BYTES_MAX)
        else {
            return Ok(());
        };
        self.is_answered = true;
        if AgentSession::is_answer(&message) {
            self.look_for_silence();
            self.env.machine.content().heard_ns = now_ns();
            self.handle(Event::ServerContact)?;
        }
        let welcome = if let Down::Welcome(welcome) = &message { Some(welcome.clone()) } else { None };
        let was_open = self.session.is_open();
        match self.session.on_down(message, clock_ns()) {
            Some(SessionAction::Refused(refused)) => {
                self.log_line(&format!("is refused: {}", refused.reason));
                self.leave();
            }
            Some(SessionAction::Broken(error)) => {
                self.log_line(&error.to_string());
                self.leave();
            }
            Some(SessionAction::Joined(fence)) => self.env.machine.content().fence = fence,
            Some(SessionAction::Desired(change)) => return self.on_desired(change),
            _ => {}
        }
        if let Some(welcome) = welcome {
            self.on_welcome(&welcome, !was_open && self.session.is_open());
        }
        if self.session.is_open() {
            self.retry.reset();
            self.dialed.drain(..self.dialed.len().saturating_sub(1));
        }
        Ok(())
    }

    /// A server lets it in. Whoever has a session already, or has none to open, takes no notice.
    fn on_welcome(&mut self, welcome: &Welcome, is_taken: bool) {
        let what = story::welcome(welcome);
        if is_taken {
            self.habits.is_welcomed(welcome.mode());
            return self.log_line(&what);
        }
        self.log_line(&format!("{what}, and takes no notice"));
        self.env.truth.count("welcomes that nobody waited for");
        if self.habits.is_welcomed_as(welcome.mode()) == Some(false) {
            self.env.truth.count("welcomes that ask for something else than the one before");
        }
    }
}
