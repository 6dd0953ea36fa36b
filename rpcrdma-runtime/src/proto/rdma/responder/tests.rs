use super::*;
use crate::wire::private_data::PrivateData;

fn posted_and_sent(responder: &mut Responder) -> (u32, Vec<Token>) {
    let (mut receives, mut sends) = (0, Vec::new());
    while let Some(action) = responder.poll_action() {
        match action {
            Action::PostReceives { count } => receives += count,
            Action::Send { token, .. } => sends.push(token),
            other => panic!("{other:?}"),
        }
    }
    (receives, sends)
}

#[test]
fn a_requester_that_sends_and_never_reads_runs_out_of_receives() {
    let config = Config { credits: 4, ..Config::default() };
    let negotiated = PrivateData::negotiate(&PrivateData::ABSENT, &PrivateData::ABSENT);
    let mut responder = Responder::new(config, negotiated, 16);
    // The version is 2, so each message is answered with ERR_VERS.
    let message = Bytes::from([[0, 0, 0, 9], [0, 0, 0, 2], [0; 4], [0; 4], [0; 4], [0; 4], [0; 4]].concat());
    let (mut receives, mut taken, mut sends) = (0, 0, Vec::new());
    loop {
        let (more, new) = posted_and_sent(&mut responder);
        receives += more;
        sends.extend(new);
        if receives == 0 {
            break;
        }
        receives -= 1;
        taken += 1;
        assert!(taken < 100, "every message got a Receive although no answer was sent");
        responder.handle_completion(Completion::Received { message: message.clone(), invalidated: None });
    }
    assert_eq!((taken, sends.len()), (10, 5));
    responder.handle_completion(Completion::Sent { token: sends[0] });
    assert_eq!(posted_and_sent(&mut responder).0, 1, "one answer was sent, so one Receive is posted");
}
