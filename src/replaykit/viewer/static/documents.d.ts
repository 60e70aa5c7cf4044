/** The documents of `page_types.py`, as the page receives them. `tsc` reads this file; browsers do not. */

type Json = unknown;

interface ErrorInfo { type: string; message?: string; traceback?: string | null }

interface RunHeader {
  id: string; name?: string; agent?: string; agent_version?: string; input?: Json; output?: Json; status?: string;
  error?: ErrorInfo | null; started_at?: number; ended_at?: number | null; tags?: string[]; metadata?: Json;
  origin?: { kind?: string; format?: string | null; run?: string | null; step?: string | null };
}

interface Totals {
  events: number; calls: number; errors: number; input_tokens: number | null; output_tokens: number | null;
  cost_usd: number | null;
}

interface RunPage {
  address: string; header: RunHeader; is_running?: boolean; totals?: Totals | null; opens_at?: number | null;
  why?: string; remarks?: string[]; agent?: string;
}

/** seq, kind, title, answer, step, at_s, duration_s, parent, marks, tokens, cost_usd */
type RowArray = [number, string, string, string?, string?, (number | null)?, (number | null)?, (number | null)?,
  string[]?, (number | null)?, (number | null)?];

interface Row {
  seq: number; kind: string; title: string; answer: string; step: string; at: number | null; duration: number | null;
  parent: number | null; marks: string[]; tokens: number | null; cost: number | null;
}

/** Rows come in the order in which events were written: a call after the calls inside it. */
interface RowBatch { rows?: RowArray[]; page?: RunPage | null; problem?: string }

interface ConversationPart { kind: string; text?: string; name?: string; value?: Json }
interface ConversationMessage { role: string; parts: ConversationPart[]; is_new: boolean }
interface ErrorPart { type: string; message?: string; traceback?: string; relation?: string }

interface EventPage {
  row: RowArray; path?: string; conversation?: ConversationMessage[]; options?: Json; tools?: string[];
  arguments?: Json; result?: Json; content?: Json; items?: Json[]; pauses_ms?: number[]; errors?: ErrorPart[];
  facts?: [string, string][];
}

interface StatePage { seq: number; step?: string; state?: Json; before?: Json; missing?: string }
interface Occurrence { seq: number; place: string; path: string; excerpt: string; is_exact: boolean }
interface UngroundedFigure { text: string; reason: string }

interface ListedRun {
  id: string; name?: string; status?: string; started_at?: number; duration_s?: number | null; events?: number | null;
  line?: string; forked_from?: string; step?: string;
}

interface FamilyPage { run: ListedRun; children: FamilyPage[] }

interface Difference { kind: string; path: string; old: Json; new: Json }

interface FirstDivergence {
  kind: string; text: string; event: string; name: string; a_seq: number | null; b_seq: number | null;
  a_step: string | null; b_step: string | null; a_text: string; b_text: string; differences: Difference[];
}

interface EventEntry {
  kind: string; event: string; name?: string; a_seq?: number | null; b_seq?: number | null; text?: string;
  a_text?: string; arguments?: Difference[]; outcome?: Difference[];
}

interface StateEntry { a_seq?: number | null; b_seq?: number | null; a_step?: string | null; b_step?: string | null;
  differences?: Difference[] }

interface UsageTotals { llm_calls: number; tool_calls: number; tokens: number | null; cost_usd: number | null;
  duration_s: number | null }

interface Comparison {
  identical: boolean; first: FirstDivergence | null; entries: EventEntry[]; states: StateEntry[];
  tools: { counts: { name: string; a: number; b: number }[] };
  outcome: { equal: boolean; differences: Difference[]; a: { status: string }; b: { status: string } };
  usage: { a: UsageTotals; b: UsageTotals };
}

interface ComparePage { a: RunPage; b: RunPage; comparison: Comparison }

interface Finding { kind: string; holds: boolean; text: string; expected?: string; actual?: string; seq?: number | null;
  run?: number | null; id?: string; severity?: string; where?: string }
interface SemanticCheck { text: string; status: string; by?: string; reason?: string }
interface Deviation { kind: string; text: string; index?: number | null; name?: string | null }

interface ReplayResult {
  case_id: string; verdict: string; candidate: string; observed: Finding[]; desired: Finding[];
  semantic: SemanticCheck[]; deviations: Deviation[]; reason: string; evidence: { used: number; recorded: number };
  offline: boolean; take: string; unproven: string; expected_failure: string; uncertain: string[];
}

interface ReplayPage { name: string; result: ReplayResult; run?: string; recorded?: string }

interface CasePage {
  name: string; title?: string; path?: string; text?: string; observed?: Finding[]; desired?: Finding[];
  semantic?: SemanticCheck[]; deviations?: Deviation[]; proof?: string; problems?: string[];
}

type ExactNumber = import("./exact_json.js").ExactNumber;
interface SuiteRun { at: number | ExactNumber; revision: string }

/** part, id, outcome, verdict, reason, duration_s, cause, replay, outcomes, standing, since, contract, scenario, faults */
type SuiteItemArray = [string, string, string, string, string, number | ExactNumber, number | null, string, string, string,
  number | null, string, string, number];

interface SuiteItem {
  index: number; part: string; id: string; outcome: string; verdict: string; reason: string; duration: number;
  cause: number | null; replay: string; outcomes: string; standing: string; since: number | null; contract: string;
  scenario: string; faults: number;
  /** Everything that the search reads, in lower case. */
  text: string;
}

interface SuitePart {
  part: string; name: string; score: number | ExactNumber | null; weight: number | ExactNumber; total: number; passed: number;
}

interface SuitePage {
  name: string; verdict: string; passed: boolean; agent: string; config: string; config_from: string;
  seed: number | ExactNumber; duration_s: number | ExactNumber; parts: SuitePart[]; runs: SuiteRun[];
  items: SuiteItemArray[]; notices: string[];
}

interface SeenCall { name: string; arguments?: Json; response?: Json; error?: string | null; status?: number | null }

/** An item as in the JSON of `ci`. */
interface CiItem {
  reason?: string; expected_failure?: string; isolation?: string; divergence?: Deviation | null; failures?: Finding[];
  faults?: string[]; input?: Json; context?: Json; output?: Json; error?: string; calls?: SeenCall[]; evidence?: string;
  file?: string; line?: number | ExactNumber | null; command?: string; unproven?: string;
}

interface Home {
  project: string; opens: string; can_fork: boolean; runs: ListedRun[]; has_more: boolean;
  cases: { name: string; title: string }[];
  replays: { name: string; case_id: string; verdict: string; candidate: string; reason: string }[];
  suites: { name: string; agent: string; started_at: number | ExactNumber; items: number }[];
}

/** Where documents come from: the server, or the blocks of a shared file. */
interface Source {
  get<T>(path: string, signal?: AbortSignal): Promise<T>;
  /** Change something; a shared file changes nothing. */
  post?(path: string, body: string): Promise<any>;
  rows(address: string, onBatch: (batch: RowBatch) => void, signal: AbortSignal): Promise<void>;
}

interface View {
  element: HTMLElement;
  title: string;
  /** Show another place of the same page; false if the route is another page. */
  go?(route: Route): boolean;
  keys?: Record<string, () => void>;
  close?(): void;
}

interface Route { view: string; names: string[]; seq: number | null; path: string }
