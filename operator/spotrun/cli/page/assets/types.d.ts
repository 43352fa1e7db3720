// The messages of the server, as page/views defines them.

export interface JobRow {
  key: string; namespace: string; name: string; team: string; phase: string; severity: number;
  workers: string; running: number; spot: number; step: number | null; totalSteps: number | null;
  eta: number | null; usd: number | null; usdPerHour: number; savedUsd: number | null;
  budgetUsd: number | null; losses: number; goodput: string | null; created: number | null;
  why: string;
}

export interface PoolRow {
  name: string; capacity: string; types: string; zones: string; nodes: number;
  workers: number | null; usdPerHour: number | null; onDemandUsdPerHour: number | null;
  source: string; isStale: boolean; available: string; lossesADay: number; taken: string;
}

export interface LimitRow {
  key: string; period: string; onExceeded: string; limitUsd: number | null;
  spentUsd: number | null; reservedUsd: number | null; forecastUsd: number | null;
  running: number; held: number; suspended: number; message: string;
}

export interface FleetMessage {
  now: number; isWhole?: boolean; jobs?: JobRow[]; jobsGone?: string[]; pools?: PoolRow[]; poolsGone?: string[];
  limits?: LimitRow[]; limitsGone?: string[];
  notes?: string[];
}

export interface Life {
  worker: number; pod: string; node: string; zone: string; capacity: string; state: string;
  begin: number | null; end: number | null; isOver: boolean; isLost: boolean;
}

export interface Mark {
  at: number; kind: string; what: string; text: string; size: number | null;
  worker: number | null;
}

export interface Sample {
  at: number; usd: number | null; usdPerHour: number | null; running: number;
  step: number | null; checkpoint: number | null; loss: number | null;
}

export interface Stall { begin: number; end: number; }

export interface Timeline {
  begin: number; end: number | null; lives: Life[]; marks: Mark[]; samples: Sample[]; stalls: Stall[];
}

export interface Worker {
  worker: number; rank: number | null; pod: string; state: string; node: string; zone: string;
  machine: string; capacity: string; usdPerHour: number | null; created: number | null;
}

export interface Told { at: number | null; what: string; why: string; }

export interface JobView {
  row: JobRow; reason: string; message: string;
  troubles: { title: string; message: string; advice: string }[];
  figures: Record<string, any>; workers: Worker[]; timeline: Timeline;
  answers: { question: string; sentences: string[] }[];
  decisions: Told[]; events: Told[]; bill: [string, number][]; remarks: string[]; notes: string[];
}

export interface JobMessage { now: number; job: JobView | null; notes: string[]; }

export interface View { element: HTMLElement; close(): void; key?(event: KeyboardEvent): boolean; }
