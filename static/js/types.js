/**
 * The shapes that cross the wire; the server's dataclasses are the authority.
 *
 * @typedef {Record<string, any>} Part
 * @typedef {{model: string | Part, cluster: Part, plan: Part, training: Part}} Scenario
 * @typedef {{field: string, message: string, remedy: string, remedy_kind?: string}} Problem  `remedy_kind`: of memory that
 *   lacks, whether each change that the remedy names fits, all do together, or even they fall short; "listed": one of a list of the catalogue is meant
 * @typedef {Record<string, number>} Amounts  seconds or bytes by name
 * @typedef {{stage: number, layers: number, in_flight: number, peak_bytes: number,
 *   reserved_bytes: number, by_kind: Amounts}} Stage
 * @typedef {{peak_bytes: number, reserved_bytes: number, capacity_bytes: number, fits: boolean, by_kind: Amounts,
 *   stages: Stage[], out_of_memory_frac?: number}} Memory
 * @typedef {{name: string, layer: string, phase: string, category: string, shape: any, count: number, flops: number,
 *   bytes: number, launches: number, saved_bytes: number, seconds: number, bound: string,
 *   intensity_flops_per_byte: number, precision: string}} Op
 * @typedef {{name: string, kind: string, axis: string, ranks: number, bytes: number, count: number, seconds: number,
 *   exposed_s: number}} Collective
 * @typedef {{step_time_s: number, interval_s: [number, number], phases_s: Amounts, breakdown_s: Amounts,
 *   tokens_per_s: number, tokens_per_s_per_chip: number, mfu: number, hfu: number, memory: Memory, ops: Op[],
 *   collectives: Collective[], limits: string, assumptions: string[], problems: Problem[], parameters: number,
 *   model_flops: number, roofs: {memory_bytes_per_s: number, flops_per_s: Amounts}, micro_batches: number,
 *   chips: number}} Estimate
 * @typedef {{value: any, scenario: Scenario, estimate: Estimate | null, problems: Problem[]}} Point
 * @typedef {{name: string, category: string, count: number, total_s: number, flops?: number | null,
 *   bytes?: number | null}} Kernel
 * @typedef {{id: string, label: string, origin: Part, device: Part, world_size: number, scenario: Part,
 *   steps_s: number[], phases_s: Amounts, breakdown_s: Amounts, kernels: Kernel[], collectives: Part[],
 *   memory: {peak_bytes: number | null, reserved_bytes: number | null, by_kind: Amounts}, rows: Part[],
 *   timeline?: Drawn | null, status: string, environment: Part, warnings: {code: string, message: string, where: string}[],
 *   step_s?: number | null, disturbance?: number, prediction?: Estimate | null, expected?: OwnPrediction | null,
 *   proposed?: Proposal | null}} Measurement  `step_s`: of its steps the usual one, or the fastest where `disturbance` says
 *   by how much they differ
 * @typedef {{op: string, inputs: string, phase: string, category: string, count: number, measured_s: number,
 *   predicted_s: number, flops: number, bytes: number, bound: string, precision: string, known: boolean, as_measured: boolean}} OwnOp
 * @typedef {{chip: string, estimate: Estimate, measured_step_s: number | null, ops: OwnOp[], rows: string, unpriced_s: number,
 *   notes: string[]}} OwnPrediction  what a profile's own ops should take
 * @typedef {{chip: string, changes: string[], laying: {plan: Record<string, any>, micro_batches: number},
 *   before: Estimate | null, estimate: Estimate, offered: {key: string, label: string, reason: string}[],
 *   layouts: {key: string, label: string, reason: string, choices: string[], split: Record<string, string>}[]}} WhatIf
 * @typedef {{scenario: Scenario | null, reason: string, whole: boolean, notes: string[],
 *   asked?: string[], parameters?: number, fields: Record<string, {value: any, sure: boolean, evidence: string}>}} Proposal  `asked`: what its file
 *   leaves out that somebody may say
 * @typedef {{chip: string, rows: Amounts[], reasons: string[],
 *   errors: Record<string, {n: number, median_ape: number, bias: number}>, assumptions: string[],
 *   unpredicted: string, doubt: string, taken: string, names: Record<string, string>,
 *   fits: {oom: number, oom_known: number, oom_unfit: number, ran: number, ran_unfit: number},
 *   taken_errors: Record<string, {n: number, median_ape: number, bias: number}>}} PredictedRows  of a table's rows, by
 *   column; errors in percent, of rows for which a chip was `taken` apart where others name theirs
 * @typedef {{id: string, label: string, origin: Part, status: string, device_name: string, world_size: number,
 *   step_time_s: number | null, peak_bytes: number | null, rows: number, kernels: number, created_s: number,
 *   has_scenario: boolean, bundled: boolean, upload_id: string, scenario: Part, disturbance: number, tokens_per_s?: number | null,
 *   device_kind: string,
 *   predicted?: {step_time_s: number, peak_bytes: number, tokens: number, samples?: number, chips: number, mfu: number} | null}} Summary
 * @typedef {{id: string, label: string, state: string, job: Part, created_s: number, started_s: number | null,
 *   finished_s: number | null, progress: Part | null, message: string, measurement_id: string | null,
 *   command: string[], log_tail?: string}} Run
 * @typedef {{name: string, list: boolean, type: string, choices: string[] | null, minimum: number | null,
 *   maximum: number | null, help: string, default: any}} BenchmarkOption
 * @typedef {{name: string, about: string, least_ranks: number, most_ranks: number | null,
 *   options: BenchmarkOption[]}} Benchmark
 * @typedef {{key: string, label: string, value: Part, aliases: string[], sources: Part, parameters?: number,
 *   roofs?: Estimate["roofs"]}} Entry
 * @typedef {{key: string, label: string, hue: string, says?: string, formula?: string, source?: string}} Named  a category, phase, pass or
 *   kind of memory; `--hue-…` colours it; `says`: what it is, for the glossary
 * @typedef {{models: Entry[], chips: Entry[], links: Entry[], pending?: {key: string, label: string, state: string,
 *   message: string}[], doubts?: Record<string, string>, measuring?: boolean, fields: Record<string, {type: string, choices: string[] | null, labels?: Record<string, string>,
 *   minimum: number | null, maximum: number | null, help: string, default: any}>, axis_fields: string[], categories: Named[], phases: Named[], passes: Named[], between_passes: string[], sends: string,
 *   memory_kinds: Named[], traced_precisions?: string[], axes: {key: string, label: string}[], default_scenario: Scenario,
 *   sample?: {measurement_id: string, scenario: Scenario} | null}} Catalog
 *
 * @typedef {{name: string, type: string, choices: string[] | null, minimum: number | null, maximum: number | null,
 *   help: string, default: any}} StudyInput
 * @typedef {{name: string, title: string, summary: string, inputs: StudyInput[]}} StudyInfo
 * @typedef {{group: string, name: string, value: number | string, unit: string, printed: number | string | null,
 *   decimals: number | null, agrees: boolean | null}} StudyFigure
 * @typedef {{group: string, name: string, x_label: string, y_label: string, x: (number | string)[],
 *   y: (number | null)[], kind: string, x_log: boolean, y_log: boolean, stacked: boolean}} StudySeries
 * @typedef {{study: string, inputs: Part, figures: StudyFigure[], series: StudySeries[], notes: string[]}} Study
 *
 * @typedef {{scenario: Scenario, step_time_s: number, interval_s: [number, number], peak_bytes: number,
 *   reserved_bytes: number, capacity_bytes: number, cost_chip_s: number, tokens_per_s: number, mfu: number, ties?: number,
 *   out_of_memory_frac?: number | null}} Found  a plan; `ties`: others with its time and memory
 * @typedef {{objective: string, plans_tried: number, plans_fitting: number, plans_per_s: number, seconds: number,
 *   best: Found[], pareto: Found[], grid: {values: any[], found: Found}[], assumptions: string[]}} Sweep
 *
 * @typedef {{name: string, label: string, plan: Part, problems: Problem[]}} Way
 * @typedef {{name: string, weights_bytes: number, [metric: string]: any}} WayCurve  numbers along the axis
 * @typedef {{metric: string, before: string, then: string, first: any, at: any, closed: boolean, leads: boolean}} Crossover
 * @typedef {{axis: string, x: number[], ways: Way[], curves: WayCurve[], crossovers: Crossover[]}} Comparison
 *
 * @typedef {{name: string, axis: string, factor: string, seconds: number, a_s: number | null, b_s: number | null,
 *   a_amount: number | null, b_amount: number | null, unit: string}} Cause
 * @typedef {{key: string, causes: Cause[], seconds: number | null, differences: {field: string, values: any[]}[],
 *   notes: string[]}} Between  where the difference of A and B goes
 * @typedef {{lanes: string[], lane: number[], kind: string[], name: string[], phase: string[], start_s: number[],
 *   end_s: number[], total_s: number, memory: [number, number][], capacity_bytes: number, folded: string}} Drawn  a step
 *   over time
 * @typedef {{id: string, name: string, base: string, device: string, host: string, constants: number,
 *   scaled: number, tables: number, created_s: number, made_from: string[]}} StoredCalibration  `constants`, `tables`:
 *   measured; `scaled`: moved along; `created_s`: 0 where nobody knows
 * @typedef {{name: string, device: string, host: string, ranges: Record<string, Part>,
 *   errors: {group: string, points: number, held_back: number, before_frac: number, after_frac: number}[],
 *   undetermined: {constant: string, reason: string, note: string}[]}} Calibration  as its file has it
 * @typedef {{field: string, before: any, after: any}} Change
 * @typedef {{changes: Change[], scenario: Scenario, step_time_s: number, peak_bytes: number, reserved_bytes: number,
 *   tokens_per_s: number, saves: string}} RemedyFound
 * @typedef {{binds: string, binds_s: number, waits: boolean, over_bytes: number, tried: number, best: RemedyFound[]}} Remedies
 *
 * A figure as data; views draw it, tests read it.
 * @typedef {{title: string, unit?: string, text?: boolean}} Column
 * @typedef {{columns: Column[], rows: any[][]}} Table
 * @typedef {{data: any[], layout: any, summary: string, table: Table, legend?: [token: string, text: string][],
 *   axes?: {x?: string, y?: string}, said?: string, onPaper?: {margin: any, annotations: any[]}}} Figure  for a picture of its own: `legend` where the page has none,
 *   titles of `axes` and what is `said` where the page says it elsewhere
 * @typedef {(name: string) => string} Colour  a token's value in the current theme
 */
export {};
