package reports

import (
	"strconv"
	"strings"

	"fenceproof/checker/contract"
	"fenceproof/checker/history"
)

// saw puts one event of the evidence into words: who, under which token, did what.
type saw struct {
	Who   string
	Token string
	What  string
	Tone  tone
}

// phrase describes an event for a table of guilty events. What comes from the evidence is clipped; the page's template
// escapes it.
func phrase(e *history.Event) saw {
	switch e.W {
	case history.Wiretap:
		return phraseCall(e)
	case history.PayDB, history.LockDB:
		return phraseCommit(e)
	case history.Journal:
		return saw{Who: "rail", What: "money moved: " + money(e.Amount, e.Currency) + ", reference " + clip(e.RailRef, 60), Tone: toneMoney}
	case history.Nemesis:
		return saw{Who: clip(firstOf(e.Target, string(e.Proc)), 60), What: strings.TrimSpace(string(e.Op) + " " + e.Phase + " " + clip(e.Msg, 200)), Tone: toneFault}
	case history.Logs:
		return saw{Who: clip(string(e.Proc), 60), What: "logged " + clip(e.Event, 80)}
	}
	return saw{Who: clip(string(e.Proc), 60), What: clip(strings.TrimSpace(string(e.Op)+" "+firstOf(e.Msg, e.Event)), 200)}
}

func phraseCall(e *history.Event) saw {
	link, err := contract.ParseLink(e.Link)
	server := clip(string(link.To), 60)
	if err != nil {
		server = "the server"
	}
	s := saw{Who: clip(string(e.Proc), 60), Token: token(e.Token)}
	switch e.Stage {
	case history.Received:
		s.What = "sends " + opName(e.Op)
	case history.Forwarded:
		s.What = opName(e.Op) + " goes on to " + server
	case history.Answered:
		s.Who = server
		s.What, s.Tone = answer(e)
		s.What += " to " + clip(string(e.Proc), 60) + "’s " + opName(e.Op)
		if e.Granted != 0 {
			s.Token = token(e.Granted)
		}
	case history.Delivered:
		s.What = "has the answer to its " + opName(e.Op)
	case history.Lost:
		s.What, s.Tone = "never got the answer to its "+opName(e.Op), toneUnknown
	default:
		s.What = opName(e.Op)
	}
	if e.DupOf != 0 {
		s.What += " (repeated on purpose)"
	}
	return s
}

func answer(e *history.Event) (string, tone) {
	switch {
	case e.Status == 0:
		return "gives no answer", toneUnknown
	case e.Code == contract.FencedOut:
		return "answers FENCED_OUT, highest token " + token(e.Highest) + ",", toneRefused
	case e.Code != "":
		return "answers " + clip(string(e.Code), 40), toneNone
	case e.Granted != 0:
		return "grants token " + token(e.Granted), toneNone
	}
	return "answers " + strconv.Itoa(e.Status), toneNone
}

func phraseCommit(e *history.Event) saw {
	s := saw{Who: string(contract.PaymentResource)}
	if e.W == history.LockDB {
		s.Who = string(contract.LockServer)
	}
	if e.Op == history.OpLostPlace {
		return saw{Who: string(e.W), What: "lost its place: " + clip(e.Msg, 200), Tone: toneBad}
	}
	lines := describe(e.Changes)
	words := make([]string, 0, len(lines))
	for _, l := range lines {
		words = append(words, l.text)
		s.Token = firstOf(s.Token, clip(l.token, 20))
		s.Tone = stronger(s.Tone, l.tone)
		if l.rail {
			s.Who = string(contract.RailProxy)
		}
	}
	s.What = "commits " + list(words)
	if len(words) == 0 {
		s.What = "commits " + strconv.Itoa(len(e.Changes)) + " row changes"
	}
	return s
}
