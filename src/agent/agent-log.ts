// How the agent's parts tell what happened: one sentence for a person each time. The command writes it to the log.

export type AgentLog = (level: 'info' | 'warn' | 'error', sentence: string) => void;
